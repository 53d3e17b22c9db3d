"""The black-box paper's recipe, section III-C, as written: the figure to beat, and what ``--pipeline paper`` answers with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.model_selection import KFold

from epochcast.regressor.arrays import Arrays, under
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes.members import members
from epochcast.regressor.recipes.raw_seconds import RawSecondsRecipe
from epochcast.regressor.trees import Trees


@dataclass(frozen=True)
class Stack:
    """A fitted stack as trees of our own, without scikit-learn and CatBoost.

    ``meta`` answers from the two columns that ``forest`` and ``booster`` answer, in seconds.
    """

    forest: Trees
    booster: Trees
    meta: Trees

    @classmethod
    def of(cls, regressor: Any) -> Self:
        """The parts of a fitted :class:`sklearn.ensemble.StackingRegressor`, in float64 to answer as it does."""
        forest, booster = regressor.estimators_
        return cls(
            Trees.of_forest(forest, np.float64),
            Trees.of_catboost(booster),
            Trees.of_boosting(regressor.final_estimator_, np.float64),
        )

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return seconds, shape (n, features) -> (n,), those of the StackingRegressor."""
        single = X.astype(np.float32)  # as both libraries read rows
        return self.meta.predict(np.column_stack([self.forest.predict(single), self.booster.predict(single)]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays."""
        return {name: array for key, trees in vars(self).items() for name, array in under(key, trees.arrays()).items()}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        """Take :meth:`arrays`."""
        return cls(*(Trees.of_arrays(arrays, name) for name in ("forest", "booster", "meta")))


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
        self.regressor_ = Stack.of(super().fit(pairs).regressor_)
        return self

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted stack; :meth:`get_params` and ``columns_`` are the caller's to keep next to it."""
        stack: Stack = self.regressor_
        return stack.arrays()

    def restore(self, columns: Sequence[str], arrays: Arrays) -> Self:
        """Take :meth:`arrays` of a stack that was fitted on these features."""
        self.columns_ = list(columns)
        self.regressor_ = Stack.of_arrays(arrays)
        return self
