"""Baseline: gradient boosting alone, on the paper's metrics and batch, of the logarithm of seconds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError

_METRICS = ("flops", "conv_inputs", "conv_outputs", "weights", "layers", "operators", "parameter_tensors")
_FEWEST = 20


class Boosting:
    """Trees do not extrapolate: larger networks get the seconds of the largest measured ones.

    Args:
        phase: one of ``points.PHASES``; it changes nothing.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self._model: Any = None

    def fit(self, points: pd.DataFrame, seconds: NDArray[np.float64]) -> Self:
        """Fit 200 trees; too few points raise InputError."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        if len(points) < _FEWEST:
            raise InputError(
                f"{len(points)} points of the {self.phase} are too few to boost trees on; measure {_FEWEST} or more"
            )
        self._model = HistGradientBoostingRegressor(
            max_iter=200, learning_rate=0.08, max_leaf_nodes=15, min_samples_leaf=min(10, len(points) // 6), random_state=0
        )
        self._model.fit(_features(points), np.log(seconds))
        return self

    def predict(self, points: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds, shape (n,)."""
        answer: NDArray[np.float64] = np.exp(self._model.predict(_features(points)))
        return answer


def _features(points: pd.DataFrame) -> NDArray[np.float64]:
    batch = points["batch"].to_numpy(dtype=float)
    metrics = [points[name].to_numpy(dtype=float) for name in _METRICS]
    scaled = [batch * metric for metric in metrics[:3]]
    features = np.stack([*scaled, *metrics, batch, points["devices"].to_numpy(dtype=float)], axis=1)
    return np.asarray(np.log1p(features))
