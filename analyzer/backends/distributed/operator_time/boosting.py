"""Gradient boosting as plain arrays: fitted by scikit-learn, kept and evaluated without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....regressor.forest import Forest

# Chosen by leaving each GPU of the public operators out in turn: small trees, and few of them, carry over best.
_TREES = 120
_RATE = 0.08
_LEAVES = 15
_LEAST_ROWS = 40
_SHRINKAGE = 1.0


@dataclass(frozen=True)
class Boosting:
    """A boosted regression: ``start`` plus the sum of the trees."""

    start: float
    forest: Forest

    @classmethod
    def fit(cls, X: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]) -> Boosting:
        """Fit shapes (n, features), (n,) and (n,)."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            max_iter=_TREES,
            learning_rate=_RATE,
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=min(_LEAST_ROWS, max(len(y) // 10, 1)),
            l2_regularization=_SHRINKAGE,
            early_stopping=False,
            random_state=0,
        )
        # Single precision, as the kept trees compare; between two float32 values every threshold decides the same.
        model.fit(X.astype(np.float32), y, sample_weight=weight)
        return cls(float(model._baseline_prediction.item()), _forest_of(model))

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """The regression at each row, shape (n, features) -> (n,)."""
        answer: NDArray[np.float64] = self.start + len(self.forest.roots) * self.forest.predict(X)
        return answer


def _forest_of(model: Any) -> Forest:
    """The trees of a fitted HistGradientBoostingRegressor of one output, in the arrays of :class:`Forest`."""
    trees = [predictor.nodes for (predictor,) in model._predictors]
    sizes = [len(nodes) for nodes in trees]
    nodes = np.concatenate(trees)
    place = np.concatenate([np.arange(size) for size in sizes])
    leaf = nodes["is_leaf"].astype(bool)
    if not (nodes["left"][~leaf] == place[~leaf] + 1).all():
        raise AssertionError("scikit-learn no longer stores trees depth first")
    threshold = nodes["num_threshold"]
    rounded = threshold.astype(np.float32)
    below = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return Forest(
        roots=np.cumsum([0, *sizes[:-1]], dtype=np.int32),
        feature=np.where(leaf, -1, nodes["feature_idx"]).astype(np.int16),
        skip=np.where(leaf, 0, nodes["right"].astype(np.int64) - place).astype(np.int32),
        value=np.where(leaf, nodes["value"].astype(np.float32), below),
    )
