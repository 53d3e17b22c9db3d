"""Fit the coefficients on measured runs: a few efficiencies, held by what is believed of each, so that ten runs are enough.

Residuals are logs of predicted over measured time; what is far off counts less than by the square, either way. Each
coefficient's log has a normal prior around what is believed of it (:data:`SPREAD`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, iteration
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes, RememberedTimes
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes, OperatorModel
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.errors import InputError

BOUNDS: Mapping[str, tuple[float, float]] = {
    "products": (0.5, 2.0),
    "attention": (0.5, 3.0),
    "throttled": (0.5, 2.0),
    "passes": (0.3, 3.0),  # kernels fused further than the graph says fall below 1
    "gap": (1e-8, 5e-6),  # what a host needs to launch one kernel
    "node_link": (0.05, 3.0),  # overlap with computation passes 1
    "network": (0.05, 1.5),
    "optimizer": (0.05, 1.5),
    "doubling": (1e-4, 0.1),
}
"""What a fitted coefficient may be."""


SPREAD: Mapping[str, float] = {
    "products": 0.1,
    "attention": 0.2,
    "throttled": 0.15,
    "passes": 0.3,
    "gap": 0.3,
    "node_link": 0.4,
    "network": 0.4,
    "optimizer": 0.4,
    "doubling": 1.0,
}
"""Standard deviation of each belief, of the coefficient's logarithm."""


_NOISE = 0.03
"""Standard deviation of the log of a time that the model explains."""

_NAMES = tuple(coefficient.name for coefficient in fields(Coefficients))


@dataclass(frozen=True)
class CalibrationSample:
    """A run ready to be fitted: its prepared job, where the work of its operators is kept, and its seconds."""

    prepared: PreparedJob
    times: OperatorTimes
    seconds: float

    @classmethod
    def of(cls, prepared: PreparedJob, seconds: float, operators: OperatorModel) -> CalibrationSample:
        """Collect what no coefficient changes."""
        job = prepared.job
        times = LearnedTimes(prepared.cluster.gpu, operators, precision_named(job.precision), job.fused_kernels)
        return cls(prepared, RememberedTimes(times), seconds)

    def predict(self, coefficients: Coefficients) -> float:
        """Seconds of one iteration."""
        return iteration(self.prepared, self.times, coefficients).seconds


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
        # Squared by least_squares, this is the soft L1 loss, 2 (sqrt(1 + e^2) - 1).
        errors = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([errors, (x - start) / spread])

    start = np.clip(start, low, high)
    solution = least_squares(residuals, start, bounds=(low, high), x_scale=spread, xtol=1e-3, ftol=1e-3)
    return _coefficients(solution.x)


def _logs(coefficients: Coefficients) -> NDArray[np.float64]:
    return np.log([getattr(coefficients, name) for name in _NAMES])


def _coefficients(logs: NDArray[np.float64]) -> Coefficients:
    return Coefficients(**{name: float(value) for name, value in zip(_NAMES, np.exp(logs), strict=True)})
