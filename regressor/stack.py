"""The paper's fitted stack as trees of our own: what scikit-learn and CatBoost fitted, without either of them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .arrays import Arrays, under
from .trees import Trees

# Seconds, or parts of them; a leaf beyond was forged. By choice.
_LARGEST = 1e18


@dataclass(frozen=True)
class Stack:
    """A fitted stack: ``meta`` answers from the two columns that ``forest`` and ``booster`` answer, in seconds."""

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
    def of_arrays(cls, arrays: Arrays, features: int) -> Self:
        """Take :meth:`arrays`, for rows of ``features`` columns.

        Raises:
            InputError: an array is missing or not what it should be.
        """

        def trees(name: str, columns: int, boosted: bool) -> Trees:
            return Trees.of_arrays(arrays, name, columns, boosted=boosted, dtype=np.float64, largest=_LARGEST)

        return cls(trees("forest", features, False), trees("booster", features, True), trees("meta", 2, True))
