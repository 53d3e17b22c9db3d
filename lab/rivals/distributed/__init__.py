"""Recipes of one iteration beside the default and the paper's: data sheets alone, and what the paper compares itself with."""

from collections.abc import Callable
from functools import partial

from epochcast.analyzer.backends.distributed import predictor
from epochcast.analyzer.backends.distributed.answer import Iteration
from lab.rivals.distributed import roofline
from lab.rivals.distributed.learned import neusight_style, predict_learned, vtrain_style

RECIPES: dict[str, Callable[..., Iteration]] = {
    **{name: partial(predict_learned, recipe) for name, recipe in predictor.RECIPES.items()},
    "roofline": roofline.predict,
    "neusight-style": neusight_style,
    "vtrain-style": vtrain_style,
}

__all__ = ["RECIPES"]
