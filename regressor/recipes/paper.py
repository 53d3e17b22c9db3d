"""The black-box paper's recipe, section III-C, as written: the figure to beat, and what ``--pipeline paper`` answers with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from catboost import CatBoostRegressor
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.model_selection import KFold

from epochcast.regressor.arrays import Arrays, under
from epochcast.regressor.boosting import array_of, model_of
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes.raw_seconds import RawSecondsRecipe
from epochcast.regressor.trees import Trees


@dataclass(frozen=True)
class Stack:
    """A fitted stack that can be stored: scikit-learn's trees as arrays, in float64 to answer as it does.

    ``meta`` answers from the two columns that ``forest`` and ``booster`` answer, in seconds.
    """

    forest: Trees
    booster: CatBoostRegressor
    meta: Trees

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return seconds, shape (n, features) -> (n,), those of the StackingRegressor."""
        forest = self.forest.predict(X.astype(np.float32))  # as scikit-learn reads rows
        return self.meta.predict(np.column_stack([forest, self.booster.predict(X, thread_count=1)]))


def members(trees: int, iterations: int, random_state: int) -> list[tuple[str, Any]]:
    """The two models that the paper stacks, unfitted, under their names in a scikit-learn ensemble.

    They have the libraries' defaults; CatBoost one thread, and no files next to the answer.
    """
    once = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
    forest = RandomForestRegressor(trees, random_state=random_state)
    return [("forest", forest), ("catboost", CatBoostRegressor(iterations=iterations, random_seed=random_state, **once))]


@dataclass(eq=False, repr=False)
class PaperRecipe(RawSecondsRecipe):
    """Random forest and CatBoost, stacked under HistGradientBoosting; raw features in, seconds out (section III-C.2).

    The paper names no hyper-parameter, so each library's defaults hold; the arguments exist to make a fast check possible.
    The stack's inner folds are shuffled, as a random split before it would have done: in the order of the pairs they leave
    whole models out, and the meta-regressor learns from worse predictions than it is given later (P2 15.0 instead of 11.6 %).
    """

    trees: int = 100
    iterations: int = 1000
    cv: int = 5
    random_state: int = 0

    def _regressor(self) -> Any:
        meta = HistGradientBoostingRegressor(random_state=self.random_state)
        folds = KFold(self.cv, shuffle=True, random_state=self.random_state)
        # The inner fits are independent; in parallel they give the same numbers in a fraction of the minutes.
        models = members(self.trees, self.iterations, self.random_state)
        return StackingRegressor(models, meta, cv=folds, n_jobs=-1)

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs; ``regressor_`` is the stack's parts, which can be saved and answer the same."""
        fitted = super().fit(pairs).regressor_
        forest, booster = fitted.estimators_
        meta = Trees.of_boosting(fitted.final_estimator_, np.float64)
        self.regressor_ = Stack(Trees.of_forest(forest, np.float64), booster, meta)
        return self

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted stack; :meth:`get_params` and ``columns_`` are the caller's to keep next to it."""
        forest, meta = under("forest", self.regressor_.forest.arrays()), under("meta", self.regressor_.meta.arrays())
        return forest | meta | {"booster": array_of(self.regressor_.booster)}

    def restore(self, columns: Sequence[str], arrays: Arrays) -> Self:
        """Take :meth:`arrays` of a stack that was fitted on these features."""
        self.columns_ = list(columns)
        forest, meta = (Trees.of_arrays(arrays, name) for name in ("forest", "meta"))
        self.regressor_ = Stack(forest, model_of(arrays["booster"]), meta)
        return self
