"""The models of the black-box paper's stack one by one (its Fig. 12), and the plain mean of its two members."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor

from epochcast.extras import how_to_install
from epochcast.regressor.errors import InputError
from epochcast.regressor.recipes.raw_seconds import RawSecondsRecipe

if TYPE_CHECKING:
    from catboost import CatBoostRegressor


def forest(trees: int, random_state: int) -> RandomForestRegressor:
    """Return the stack's first member, unfitted, with the library's defaults."""
    return RandomForestRegressor(trees, random_state=random_state)


def boosting(iterations: int, random_state: int) -> "CatBoostRegressor":
    """Return the stack's second member, unfitted, with the library's defaults; one thread, no files next to the answer.

    Raises:
        InputError: catboost is not installed.
    """
    try:
        from catboost import CatBoostRegressor
    except ImportError as error:
        raise InputError(f"the paper's recipe is fitted by the package catboost; {how_to_install('paper')}") from error
    return CatBoostRegressor(
        iterations=iterations, random_seed=random_state, thread_count=1, verbose=0, allow_writing_files=False
    )


@dataclass(eq=False, repr=False)
class RandomForestRecipe(RawSecondsRecipe):
    """The stack's first member."""

    trees: int = 100
    random_state: int = 0

    def _regressor(self) -> Any:
        return forest(self.trees, self.random_state)


@dataclass(eq=False, repr=False)
class CatBoostRecipe(RawSecondsRecipe):
    """The stack's second member."""

    iterations: int = 1000
    random_state: int = 0

    def _regressor(self) -> Any:
        return boosting(self.iterations, self.random_state)


@dataclass(eq=False, repr=False)
class HistGradientBoostingRecipe(RawSecondsRecipe):
    """The stack's meta-regressor, on the features themselves."""

    iterations: int = 100
    random_state: int = 0

    def _regressor(self) -> Any:
        return HistGradientBoostingRegressor(max_iter=self.iterations, random_state=self.random_state)


def members(trees: int, iterations: int, random_state: int) -> list[tuple[str, Any]]:
    """The two models that the paper stacks, unfitted, under their names in a scikit-learn ensemble."""
    return [("forest", forest(trees, random_state)), ("catboost", boosting(iterations, random_state))]


@dataclass(eq=False, repr=False)
class MeanRecipe(RawSecondsRecipe):
    """The mean of random forest and CatBoost: what the stack would be if its meta-regressor had nothing to learn."""

    trees: int = 100
    iterations: int = 1000
    random_state: int = 0

    def _regressor(self) -> Any:
        return VotingRegressor(members(self.trees, self.iterations, self.random_state))
