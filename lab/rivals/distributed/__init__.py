"""Recipes of one iteration beside the default and the paper's: data sheets alone, and what the paper compares itself with."""

from collections.abc import Callable
from functools import partial

from epochcast.analyzer.backends.distributed import predictor
from epochcast.analyzer.backends.distributed.answer import Iteration
from lab.rivals.distributed import neusight_style, roofline, vtrain_style
from lab.rivals.distributed.learned import predict_learned

RECIPES: dict[str, Callable[..., Iteration]] = {
    **{name: partial(predict_learned, recipe) for name, recipe in predictor.RECIPES.items()},
    "roofline": roofline.predict,
    "neusight-style": neusight_style.predict,
    "vtrain-style": vtrain_style.predict,
}

__all__ = ["RECIPES"]
