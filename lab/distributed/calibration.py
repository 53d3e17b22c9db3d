"""Fit the coefficients on measured runs: a few efficiencies, held by what is believed of each, so that ten runs are enough.

Residuals are logs of predicted over measured time. Disturbances only ever slow a run, so a run that is slower than the
model explains less and less the slower it is (Cauchy's loss), while one that is faster counts by the square. Each coefficient's
log has a normal prior around what is believed of it (:data:`SPREAD`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, iteration
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.errors import InputError

BOUNDS: Mapping[str, tuple[float, float]] = {
    "gemm": (0.05, 1.0),
    "gemm_depth": (1.0, 4096.0),
    "gemm_tail": (0.01, 8.0),
    "gemm_bandwidth": (0.1, 1.0),
    "bandwidth": (0.1, 1.5),  # kernels fused further than the graph says pass 1
    "launch": (1e-8, 1e-4),
    "node_link": (0.05, 3.0),  # overlap with computation passes 1
    "network": (0.05, 1.5),
    "optimizer": (0.05, 1.5),
}
"""What a fitted coefficient may be."""


SPREAD: Mapping[str, float] = {
    "gemm": 0.15,
    "gemm_depth": 0.5,
    "gemm_tail": 0.7,
    "gemm_bandwidth": 0.2,
    "bandwidth": 0.4,
    "launch": 0.5,
    "node_link": 0.4,
    "network": 0.4,
    "optimizer": 0.4,
}
"""Standard deviation of each belief, of the coefficient's logarithm."""


_NOISE = 0.05
"""Standard deviation of the log of a time that the model explains."""

_NAMES = tuple(coefficient.name for coefficient in fields(Coefficients))


@dataclass(frozen=True)
class CalibrationSample:
    """A run ready to be fitted: its prepared job, where the work of its operators is kept, and its seconds."""

    prepared: PreparedJob
    times: CalibratedTimes
    seconds: float

    @classmethod
    def of(cls, prepared: PreparedJob, seconds: float) -> CalibrationSample:
        """Collect what no coefficient changes."""
        job = prepared.job
        times = CalibratedTimes(prepared.cluster.gpu, precision_named(job.precision), Coefficients(), job.fused_kernels)
        return cls(prepared, times, seconds)

    def predict(self, coefficients: Coefficients) -> float:
        """Seconds of one iteration."""
        return iteration(self.prepared, replace(self.times, coefficients=coefficients), coefficients).seconds


def fit(
    runs: Sequence[CalibrationSample], belief: Coefficients | None = None, progress: Callable[[int], object] | None = None
) -> Coefficients:
    """Fit all coefficients on measured runs, starting from and held by ``belief`` (default: what is believed without any run).

    Raises:
        InputError: there is no run.
    """
    if not runs:
        raise InputError("no measured runs to calibrate on; give at least one")
    belief = belief or Coefficients()
    start = _logs(belief)
    spread = np.array([SPREAD[name] for name in _NAMES])
    measured = np.log([run.seconds for run in runs])
    low, high = (np.log([BOUNDS[name][end] for name in _NAMES]) for end in (0, 1))
    calls = 0

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal calls
        calls += 1
        if progress:
            progress(calls)
        coefficients = _coefficients(x)
        errors = (np.log([run.predict(coefficients) for run in runs]) - measured) / _NOISE
        # Squared by least_squares, the left side is Cauchy's loss, log(1 + e^2).
        errors = np.where(errors < 0, -np.sqrt(np.log1p(errors**2)), errors)
        return np.concatenate([errors, (x - start) / spread])

    start = np.clip(start, low, high)
    solution = least_squares(residuals, start, bounds=(low, high), x_scale=spread, xtol=1e-3, ftol=1e-3)
    return _coefficients(solution.x)


def _logs(coefficients: Coefficients) -> NDArray[np.float64]:
    return np.log([getattr(coefficients, name) for name in _NAMES])


def _coefficients(logs: NDArray[np.float64]) -> Coefficients:
    return Coefficients(**{name: float(value) for name, value in zip(_NAMES, np.exp(logs), strict=True)})
