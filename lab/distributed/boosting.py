"""Gradient boosting, fitted by scikit-learn, kept and evaluated without it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.trees import Trees

# Chosen by leaving each GPU of the public operators out in turn: small trees, and few of them, carry over best.
_TREES = 120
_RATE = 0.08
_LEAVES = 15
_LEAST_ROWS = 40
_SHRINKAGE = 1.0


def fit_boosting(X: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]) -> Trees:
    """Fit a regression on shapes (n, features), (n,) and (n,)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=_TREES,
        learning_rate=_RATE,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=min(_LEAST_ROWS, max(len(y) // 3, 1)),
        l2_regularization=_SHRINKAGE,
        early_stopping=False,
        random_state=0,
    )
    # Single precision, as the kept trees compare; between two float32 values every threshold decides the same.
    model.fit(X.astype(np.float32), y, sample_weight=weight)
    return Trees.of_boosting(model)
