"""A Gaussian process over a recipe's errors on one GPU, for the very few measurements that a calibration has."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import Matern

from epochcast.regressor.errors import InputError

# Standard deviations in log seconds, fixed a priori from the size of a recipe's errors on GPUs that it has not seen: about
# 0.15, most of it common to a GPU or to jobs that are alike. Fitted to the anchors at hand by marginal likelihood they made
# answers worse, and a common factor fitted to them did not make intervals better (decision 0015).
_COMMON = 0.10
"""Of the error that every answer about the GPU shares."""
_SMOOTH = 0.10
"""Of the part that jobs share the more, the more alike their telemetry is."""
_PER_GPU = 0.05
"""Of the part that belongs to the GPU at the other end."""
_PER_WORKLOAD = 0.05
"""Of the noise that all pairs of a workload share: it was measured once on the new GPU."""
_PER_PAIR = 0.04
"""Of the noise of one pair."""

# Standard deviations, root mean square over the features. Others differ by 0.3 points or less (decision 0015).
_LENGTH = 1.0

MOST_PAIRS = 1000
"""Measured pairs that a process takes: its cost grows with their cube, with so many a new training serves better. By choice."""

# A feature that hardly moves among the anchors says nothing of how alike they are; its noise must not be blown up. By choice.
_STILL = 1e-3


class ResidualProcess:
    """Exact process with a fixed covariance (Rasmussen & Williams 2006, eq. 2.25-26): constant + per GPU + Matérn 3/2.

    The Matérn part works on the smooth features, centred and scaled over the anchors themselves.

    Args:
        X: smooth features of the profiles, shape (n, features).
        gpus: the GPU at the other end of each pair, length n.
        workloads: workload of each pair, length n; pairs of one share their noise.
        residuals: log(measured ratio) − the recipe's log ratio, shape (n,).
        base_scale: median scale of the recipe's own answers for these pairs.

    Raises:
        InputError: more than :data:`MOST_PAIRS` pairs.
    """

    def __init__(
        self, X: ArrayLike, gpus: Sequence[str], workloads: Sequence[str], residuals: ArrayLike, base_scale: float
    ) -> None:
        if len(gpus) > MOST_PAIRS:
            raise InputError(
                f"{len(gpus)} measured pairs are too many for a calibration, which takes at most {MOST_PAIRS}; train a model "
                "on both data sets with `epochcast fit regressor`"
            )
        self.X = np.asarray(X, dtype=np.float64)
        self.gpus = list(gpus)
        self.workloads = list(workloads)
        self.residuals = np.asarray(residuals, dtype=np.float64)
        self.base_scale = base_scale
        spread = self.X.std(axis=0)
        self._centre, self._spread = self.X.mean(axis=0), np.where(spread > _STILL, spread, 1.0)
        self._matern = Matern(_LENGTH * np.sqrt(self.X.shape[1]), nu=1.5)
        noise = _PER_WORKLOAD**2 * _same(self.workloads, self.workloads) + _PER_PAIR**2 * np.eye(len(self.gpus))
        self._factor = cho_factor(self._covariance(self.X, self.gpus) + noise, lower=True)
        self._weights = cho_solve(self._factor, self.residuals)

    def predict(self, X: NDArray[np.float64], gpus: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of the error that a newly measured workload would show, shape (m,) each."""
        cross = self._covariance(X, gpus)
        variance = _COMMON**2 + _SMOOTH**2 + _PER_GPU**2 - (cross * cho_solve(self._factor, cross.T).T).sum(axis=1)
        return cross @ self._weights, np.sqrt(np.maximum(variance, 0.0) + _PER_WORKLOAD**2 + _PER_PAIR**2)

    def _covariance(self, X: NDArray[np.float64], gpus: Sequence[str]) -> NDArray[np.float64]:
        """Of the errors without their noise between rows (X, gpus) and the anchors, shape (m, n)."""
        alike = self._matern((X - self._centre) / self._spread, (self.X - self._centre) / self._spread)
        covariance: NDArray[np.float64] = _COMMON**2 + _PER_GPU**2 * _same(gpus, self.gpus) + _SMOOTH**2 * alike
        return covariance

    def state(self) -> dict[str, Any]:
        """Return the arguments as JSON values."""
        return {
            "X": self.X.tolist(),
            "gpus": self.gpus,
            "workloads": self.workloads,
            "residuals": self.residuals.tolist(),
            "base_scale": self.base_scale,
        }


def _same(ours: Sequence[str], theirs: Sequence[str]) -> NDArray[np.float64]:
    same: NDArray[np.bool_] = np.array(ours)[:, None] == np.array(theirs)[None]
    return same.astype(np.float64)
