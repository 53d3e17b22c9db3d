"""A smooth member measured beside the trees: one Gaussian process per pair of GPUs.

It stays out of the shipped model, because an exact process keeps its training rows (docs/decisions/0006).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..features import DERIVED, derived_features
from ..pairs import Pair, actual_ratio, source_seconds

# Few and smooth: quartiles and logs of the same quantity only add distance between rows that are alike.
_FEATURES = tuple(
    DERIVED.index(name)
    for name in (
        *(f"gpu_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
        *(f"memory_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
        "memory_per_gpu_utilization_log",
        *(f"power_{name}_per_tdp" for name in ("mean", "std", "max")),
        "sm_clock_mean_per_boost",
    )
)


class GaussianProcessRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Matérn process on the log ratio, clipped to the range of its training targets; NaN for pairs of GPUs never seen.

    Without the clip a workload far from the others is extrapolated without bound (research: RMSE 26.8 s against 2.6 s).
    """

    def __init__(self, restarts: int = 1, random_state: int = 0) -> None:
        self.restarts = restarts
        self.random_state = random_state

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit one process per (source GPU, target GPU)."""
        X, log_ratio = derived_features(pairs)[:, _FEATURES], np.log(actual_ratio(pairs))
        self.models_, self.ranges_ = {}, {}
        for names, rows in _by_gpus(pairs).items():
            kernel = ConstantKernel() * Matern(3.0, nu=1.5) + WhiteKernel(0.1, (1e-3, 1.0))
            process = GaussianProcessRegressor(
                kernel, normalize_y=True, n_restarts_optimizer=self.restarts, random_state=self.random_state
            )
            self.models_[names] = make_pipeline(StandardScaler(), process).fit(X[rows], log_ratio[rows])
            self.ranges_[names] = (log_ratio[rows].min(), log_ratio[rows].max())
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        X = derived_features(pairs)[:, _FEATURES]
        log_ratio = np.full(len(pairs), np.nan)
        for names, rows in _by_gpus(pairs).items():
            if names in self.models_:
                log_ratio[rows] = np.clip(self.models_[names].predict(X[rows]), *self.ranges_[names])
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(log_ratio)
        return seconds


def _by_gpus(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[int]]:
    rows = defaultdict(list)
    for row, pair in enumerate(pairs):
        rows[pair.source_gpu.name, pair.target_gpu.name].append(row)
    return rows
