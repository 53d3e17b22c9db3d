"""Recipes by name: ours, and what they have to be worth more than."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, Recipe
from lab.rivals.latency.baselines import DataSheetRidge, PairMedian, SpecificationRatio
from lab.rivals.latency.prior import PriorRecipe
from lab.rivals.latency.single_models import CatBoostRecipe, HistGradientBoostingRecipe, MeanRecipe, RandomForestRecipe


@dataclass(eq=False, repr=False)
class OneMember(DefaultRecipe):
    """One of the two that ``default`` is made of."""

    catboost: bool = False

    def _share(self, measured: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.full(len(measured), float(self.catboost))


RECIPES: dict[str, Callable[[], Recipe]] = {
    "default": DefaultRecipe,
    "paper": PaperRecipe,
    "random-forest": RandomForestRecipe,
    "catboost": CatBoostRecipe,
    "hist-gradient-boosting": HistGradientBoostingRecipe,
    "forest-catboost-mean": MeanRecipe,
    "ridge": OneMember,
    "ratio-catboost": lambda: OneMember(catboost=True),
    "prior": PriorRecipe,
    "same-latency": SpecificationRatio,
    "flops-ratio": lambda: SpecificationRatio("flops"),
    "bandwidth-ratio": lambda: SpecificationRatio("memory_bandwidth"),
    "geometric-mean": lambda: SpecificationRatio("flops", "memory_bandwidth"),
    "data-sheet-ridge": DataSheetRidge,
    "pair-median": PairMedian,
}
