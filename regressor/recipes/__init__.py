"""Recipes: how a latency on another GPU is predicted. One file each; ``RECIPES`` names them.

A recipe follows scikit-learn's conventions (hyper-parameters in ``__init__``, ``fit`` learns into trailing-underscore
attributes), with pairs in the place of a matrix.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.pipeline import make_pipeline

from epochcast.regressor.pair_features import PairFeatures
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes.baselines import DataSheetRidge, PairMedian, SpecificationRatio
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.recipes.latency_only import LatencyOnlyRecipe
from epochcast.regressor.recipes.log_ratio import LogRatioRecipe
from epochcast.regressor.recipes.paper import PaperRecipe
from epochcast.regressor.recipes.prior import PriorRecipe
from epochcast.regressor.recipes.single_models import CatBoostRecipe, HistGradientBoostingRecipe, MeanRecipe, RandomForestRecipe
from epochcast.regressor.recipes.speeds import SpeedsRecipe


class Recipe(Protocol):
    """Learns from measured pairs, answers seconds on the target."""

    def fit(self, pairs: Sequence[Pair]) -> Self:
        """Learn from measured pairs."""
        ...

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,); NaN where the recipe has no answer."""
        ...

    def get_params(self) -> dict[str, Any]:
        """Return the hyper-parameters."""
        ...


def _extra_trees() -> Recipe:
    """One ensemble of trees on the log ratio, what ``default`` has to be worth more than; as many trees and as large leaves."""
    return LogRatioRecipe(make_pipeline(PairFeatures(), ExtraTreesRegressor(200, min_samples_leaf=2, random_state=0)))


RECIPES: dict[str, Callable[[], Recipe]] = {
    "default": DefaultRecipe,
    "paper": PaperRecipe,
    "random-forest": RandomForestRecipe,
    "catboost": CatBoostRecipe,
    "hist-gradient-boosting": HistGradientBoostingRecipe,
    "forest-catboost-mean": MeanRecipe,
    "speeds": SpeedsRecipe,
    "prior": PriorRecipe,
    "gaussian-process": lambda: DefaultRecipe(forest_share=0.0),
    "extra-trees": _extra_trees,
    "latency-only": LatencyOnlyRecipe,
    "same-latency": SpecificationRatio,
    "flops-ratio": lambda: SpecificationRatio("flops"),
    "bandwidth-ratio": lambda: SpecificationRatio("memory_bandwidth"),
    "geometric-mean": lambda: SpecificationRatio("flops", "memory_bandwidth"),
    "data-sheet-ridge": DataSheetRidge,
    "pair-median": PairMedian,
}

__all__ = [
    "RECIPES",
    "CatBoostRecipe",
    "DataSheetRidge",
    "DefaultRecipe",
    "HistGradientBoostingRecipe",
    "LatencyOnlyRecipe",
    "LogRatioRecipe",
    "MeanRecipe",
    "PairMedian",
    "PaperRecipe",
    "PriorRecipe",
    "RandomForestRecipe",
    "Recipe",
    "SpecificationRatio",
    "SpeedsRecipe",
]
