"""Recipes of one iteration beside the default and the paper's: data sheets alone, and what the paper compares itself with."""

from epochcast.analyzer.backends.distributed.recipes import RECIPES
from lab.rivals.distributed import neusight_style, roofline, vtrain_style

RECIPES.update(
    {
        "roofline": roofline.predict,
        "neusight-style": neusight_style.predict,
        "vtrain-style": vtrain_style.predict,
    }
)

__all__ = ["RECIPES"]
