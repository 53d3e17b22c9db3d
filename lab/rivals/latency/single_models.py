"""The models of the black-box paper's stack one by one (its Fig. 12), and the plain mean of its two members."""

from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor

from epochcast.regressor.recipes.paper import RawSecondsRecipe, members


@dataclass(eq=False, repr=False)
class RandomForestRecipe(RawSecondsRecipe):
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
