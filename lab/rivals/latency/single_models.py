"""The models of the black-box paper's stack one by one (its Fig. 12), and the plain mean of its two members."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor

from epochcast.regressor.gpus import FIGURES
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes.paper import RawSecondsRecipe, members

_STATIC = frozenset(f"{figure}_ratio" for figure in FIGURES)


@dataclass(eq=False, repr=False)
class SomeFeatures(RawSecondsRecipe):
    """Fitted on a part of the features.

    Attributes:
        features: ``dynamic`` are the source's metrics, ``static`` the source/target ratios of the GPUs' attributes (Table V),
            ``all`` both.
        latency: whether the source's epoch seconds, the paper's third kind of input, are included.
    """

    features: str = "all"
    latency: bool = True

    def _table(self, pairs: Sequence[Pair]) -> pd.DataFrame:
        table = super()._table(pairs)
        parts = {name: "latency" if name == "latency" else "static" if name in _STATIC else "dynamic" for name in table.columns}
        kept = {"static", "dynamic"} if self.features == "all" else {self.features}
        kept |= {"latency"} if self.latency else set()
        return table[[name for name, part in parts.items() if part in kept]]


@dataclass(eq=False, repr=False)
class RandomForestRecipe(SomeFeatures):
    """The stack's first member."""

    trees: int = 100
    random_state: int = 0

    def _regressor(self) -> Any:
        return members(self.trees, 1, self.random_state)[0][1]


@dataclass(eq=False, repr=False)
class CatBoostRecipe(RawSecondsRecipe):
    """The stack's second member."""

    iterations: int = 1000
    random_state: int = 0

    def _regressor(self) -> Any:
        return members(1, self.iterations, self.random_state)[1][1]


@dataclass(eq=False, repr=False)
class HistGradientBoostingRecipe(RawSecondsRecipe):
    """The stack's meta-regressor, on the features themselves."""

    iterations: int = 100
    random_state: int = 0

    def _regressor(self) -> Any:
        return HistGradientBoostingRegressor(max_iter=self.iterations, random_state=self.random_state)


@dataclass(eq=False, repr=False)
class MeanRecipe(RawSecondsRecipe):
    """The mean of random forest and CatBoost: what the stack would be if its meta-regressor had nothing to learn."""

    trees: int = 100
    iterations: int = 1000
    random_state: int = 0

    def _regressor(self) -> Any:
        return VotingRegressor(members(self.trees, self.iterations, self.random_state))
