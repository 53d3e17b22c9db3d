"""Jobs of one GPU, what they are drawn from, and seeded streams of them, as section VI of the paper has them.

A stream is a mix of the paper's networks, "scaled from prior work" [11], [12]; the paper gives neither how many jobs nor when
they arrive nor how long they take. Assumed here: durations are log-normal, the usual shape of the traces that Gandiva [11] and
Tiresias [12] scale down; networks are drawn evenly from the table, without regard to their duration; all jobs arrive at once,
or as a Poisson process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.analyzer.errors import InputError


@dataclass(frozen=True)
class PackedJob:
    """A job of one GPU.

    Attributes:
        name: what it is called.
        arrival: seconds at which it asks for a GPU.
        duration: seconds that it takes alone on a GPU.
        occupancy: its true mean GPU occupancy, 0..1; it drives the slowdown.
        predicted_occupancy: the occupancy that the scheduler knows, 0..1.
        nvml_utilisation: share of the time alone in which a kernel runs, 0..1.
        memory: bytes that it holds on the GPU from start to end.
        predicted_memory: bytes that the scheduler knows.
        kind: key of the :class:`JobKind` that it was drawn from, if any.
    """

    name: str
    arrival: float
    duration: float
    occupancy: float
    predicted_occupancy: float
    nvml_utilisation: float
    memory: float
    predicted_memory: float
    kind: str = ""


@dataclass(frozen=True)
class JobKind:
    """One network with its input sizes on one GPU.

    Attributes:
        key: what it is called.
        occupancy: mean GPU occupancy while it runs, 0..1.
        nvml_utilisation: share of the time in which a kernel runs, 0..1.
        memory: bytes.
    """

    key: str
    occupancy: float
    nvml_utilisation: float
    memory: float


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


def job_stream(kinds: Sequence[JobKind], shape: StreamShape, rng: np.random.Generator) -> list[PackedJob]:
    """Draw a stream; predictions in it are right.

    Raises:
        InputError: there are no jobs or no kinds, or a figure of the shape is not above zero.
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
        PackedJob(
            name=f"{number} {kind.key}",
            arrival=arrival,
            duration=duration,
            occupancy=kind.occupancy,
            predicted_occupancy=kind.occupancy,
            nvml_utilisation=kind.nvml_utilisation,
            memory=kind.memory,
            predicted_memory=kind.memory,
            kind=kind.key,
        )
        for number, (kind, arrival, duration) in enumerate(
            zip((kinds[index] for index in drawn), arrivals.tolist(), durations.tolist(), strict=True), start=1
        )
    ]


def streams(kinds: Sequence[JobKind], shape: StreamShape, runs: int, seed: int) -> list[Sequence[PackedJob]]:
    """``runs`` streams; each depends on the seed and its own number alone."""
    return [job_stream(kinds, shape, np.random.default_rng([seed, run, 0])) for run in range(runs)]
