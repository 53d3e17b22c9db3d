"""Jobs of one GPU, and seeded streams of them, as section VI of the paper has them.

A stream is a mix of the paper's networks, "scaled from prior work" [11], [12]; the paper gives neither how many jobs nor when
they arrive nor how long they take. Assumed here: durations are log-normal, the usual shape of the traces that Gandiva [11] and
Tiresias [12] scale down; networks are drawn evenly from the table, without regard to their duration; all jobs arrive at once,
or as a Poisson process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

JOBS = 40
"""Of a stream."""

MEAN_DURATION = 12.0
"""Seconds alone: 40 such jobs keep four GPUs busy for about as long as the paper's 133 s."""

SPREAD = 1.0
"""Standard deviation of the logarithm of the duration."""


@dataclass(frozen=True)
class PackedJob:
    """A job of one GPU, or what jobs of a stream are drawn from, which neither arrives nor lasts.

    Attributes:
        name: what it is called.
        arrival: seconds at which it asks for a GPU.
        duration: seconds that it takes alone on a GPU.
        occupancy: its true mean GPU occupancy, 0..1; it drives the slowdown.
        predicted_occupancy: the occupancy that the scheduler knows, 0..1.
        nvml_utilisation: share of the time alone in which a kernel runs, 0..1.
        memory: bytes that it holds on the GPU from start to end.
        predicted_memory: bytes that the scheduler knows.
        kind: name of what it was drawn from, if anything.
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


def job_kind(name: str, occupancy: float, nvml_utilisation: float, memory: float) -> PackedJob:
    """What jobs are drawn from: ratios 0..1 and bytes, known rightly to the scheduler."""
    return PackedJob(name, 0.0, 0.0, occupancy, occupancy, nvml_utilisation, memory, memory)


def draw_streams(
    kinds: Sequence[PackedJob], runs: int, seed: int, jobs: int = JOBS, arrival_rate: float | None = None
) -> list[list[PackedJob]]:
    """``runs`` streams of ``jobs`` jobs; each depends on the seed and its own number alone.

    ``arrival_rate`` is in jobs per second of a Poisson process; None: all arrive at once.
    """
    streams = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 0])
        drawn = [kinds[index] for index in rng.integers(len(kinds), size=jobs)]
        median = MEAN_DURATION / math.exp(SPREAD**2 / 2)
        durations = median * np.exp(SPREAD * rng.standard_normal(jobs))
        gaps = np.zeros(jobs) if arrival_rate is None else rng.exponential(1 / arrival_rate, jobs)
        times = zip(drawn, (np.cumsum(gaps) - gaps[0]).tolist(), durations.tolist(), strict=True)
        streams.append(
            [
                replace(kind, name=f"{number} {kind.name}", arrival=arrival, duration=duration, kind=kind.name)
                for number, (kind, arrival, duration) in enumerate(times, start=1)
            ]
        )
    return streams
