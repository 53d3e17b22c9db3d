"""Recipes by name: ours, and what they have to be worth more than."""

from collections.abc import Callable

from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, Recipe
from lab.rivals.latency.baselines import DataSheetRidge, PairMedian, SpecificationRatio
from lab.rivals.latency.prior import PriorRecipe
from lab.rivals.latency.single_models import CatBoostRecipe, HistGradientBoostingRecipe, MeanRecipe, RandomForestRecipe

RECIPES: dict[str, Callable[[], Recipe]] = {
    "default": DefaultRecipe,
    "paper": PaperRecipe,
    "random-forest": RandomForestRecipe,
    "catboost": CatBoostRecipe,
    "hist-gradient-boosting": HistGradientBoostingRecipe,
    "forest-catboost-mean": MeanRecipe,
    "ridge": lambda: DefaultRecipe(members="ridge"),
    "ratio-catboost": lambda: DefaultRecipe(members="catboost"),
    "prior": PriorRecipe,
    "same-latency": SpecificationRatio,
    "flops-ratio": lambda: SpecificationRatio("flops"),
    "bandwidth-ratio": lambda: SpecificationRatio("memory_bandwidth"),
    "geometric-mean": lambda: SpecificationRatio("flops", "memory_bandwidth"),
    "data-sheet-ridge": DataSheetRidge,
    "pair-median": PairMedian,
}
