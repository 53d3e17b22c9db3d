"""Seeded streams of jobs, as section VI of the paper has them: a mix of its networks, "scaled from prior work" [11], [12].

The paper gives neither how many jobs nor when they arrive nor how long they take. Assumed here: durations are log-normal, the
usual shape of the traces that Gandiva [11] and Tiresias [12] scale down; networks are drawn evenly from the table, without
regard to their duration; all jobs arrive at once, or as a Poisson process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ....errors import InputError
from .job import Job
from .job_kinds import JobKind


@dataclass(frozen=True)
class StreamShape:
    """How a stream is drawn.

    Attributes:
        jobs: how many.
        mean_duration: seconds alone; 40 jobs of 12 s keep four GPUs busy for about as long as the paper's 133 s.
        spread: standard deviation of the logarithm of the duration.
        arrival_rate: jobs per second of a Poisson process; None: all arrive at once.
    """

    jobs: int = 40
    mean_duration: float = 12.0
    spread: float = 1.0
    arrival_rate: float | None = None


def job_stream(kinds: Sequence[JobKind], shape: StreamShape, rng: np.random.Generator) -> list[Job]:
    """Draw a stream; predictions in it are right (:func:`with_prediction_error`).

    Raises:
        InputError: no job is asked for, there is no kind, or a figure of the shape is not above zero.
    """
    if not kinds or shape.jobs < 1:
        raise InputError(f"a stream of {shape.jobs} jobs from {len(kinds)} kinds is empty; ask for one or more")
    if not (shape.mean_duration > 0 and shape.spread >= 0 and (shape.arrival_rate is None or shape.arrival_rate > 0)):
        raise InputError(f"{shape} has a duration, spread or arrival rate that cannot be; give positive numbers")
    drawn = rng.integers(len(kinds), size=shape.jobs)
    median = shape.mean_duration / math.exp(shape.spread**2 / 2)
    durations = median * np.exp(shape.spread * rng.standard_normal(shape.jobs))
    gaps = np.zeros(shape.jobs) if shape.arrival_rate is None else rng.exponential(1 / shape.arrival_rate, shape.jobs)
    arrivals = np.cumsum(gaps) - gaps[0]
    return [
        Job(
            name=f"{number} {one.key}",
            arrival=arrival,
            duration=duration,
            occupancy=one.occupancy,
            predicted_occupancy=one.occupancy,
            nvml_utilisation=one.nvml_utilisation,
            memory=one.memory,
            predicted_memory=one.memory,
            kind=one.key,
        )
        for number, (one, arrival, duration) in enumerate(
            zip((kinds[index] for index in drawn), arrivals.tolist(), durations.tolist(), strict=True), start=1
        )
    ]


def with_prediction_error(jobs: Sequence[Job], error: float, rng: np.random.Generator) -> list[Job]:
    """The jobs with predicted occupancies that are off by a factor; its mean distance from 1 is ``error``.

    The factor is log-normal with median 1, so that too high and too low are equally frequent, and drawn once for each
    kind of job: a predictor is wrong in the same way each time. Predictions end at 1; what is true stays as it is.

    Raises:
        InputError: the error is not from 0 up to 5.
    """
    if not 0 <= error <= 5:
        raise InputError(f"a prediction error of {error:g} is out of range; give a ratio such as 0.2, at most 5")
    spread = _log_spread(error)
    factors = {job.kind or job.name: 1.0 for job in jobs}
    factors = {key: math.exp(spread * draw) for key, draw in zip(factors, rng.standard_normal(len(factors)), strict=True)}
    return [replace(job, predicted_occupancy=min(1.0, job.occupancy * factors[job.kind or job.name])) for job in jobs]


def _log_spread(error: float) -> float:
    """Standard deviation s of ln f, of median 1, for which the mean of \\|f - 1\\| is ``error``: e^(s²/2) (2 Φ(s) - 1)."""
    if error == 0:
        return 0.0
    return float(brentq(lambda s: math.exp(s**2 / 2) * (2 * norm.cdf(s) - 1) - error, 0.0, 4.0))
