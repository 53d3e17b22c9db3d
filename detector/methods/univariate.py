"""What the methods that look at one metric share: the series they search, and the answer that boundaries make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection, Epoch, JobEpochs
from epochcast.detector.signals import Signals

#: Distances of boundaries within this share of their mean are even. By choice, as wide as in ../shared/research/detector.md, 4.
EVEN = 0.15


@dataclass(frozen=True)
class MetricSeries:
    """One metric along a clock.

    Attributes:
        values: (n,) in the metric's unit.
        reading: (n,) seconds of the clock, strictly increasing.
    """

    values: NDArray[np.float64]
    reading: NDArray[np.float64]


def sampled(signals: Signals, clock: Clock, name: str) -> MetricSeries:
    """The metric's samples as they are; on the work clock as many samples, evenly spaced in work."""
    if clock.name == "wall":
        return MetricSeries(signals.metrics[name], clock.reading)
    return even(signals, clock, name)


def even(signals: Signals, clock: Clock, name: str) -> MetricSeries:
    """As many samples as the trace has, evenly spaced on the clock."""
    reading = np.linspace(clock.reading[0], clock.reading[-1], signals.time.size)
    return MetricSeries(clock.resample(name, signals.metrics[name], reading), reading)


def answer(
    method: str,
    clock: Clock,
    boundaries: NDArray[np.float64],
    *,
    confidence: float | None = None,
    average: Callable[[NDArray[np.float64]], np.floating] = np.mean,
    scores: Mapping[str, NDArray[np.float64]] | None = None,
) -> Detection:
    """The epochs between boundaries; verdict `none` for fewer than two.

    Args:
        method: key of `METHODS`.
        clock: the boundaries' positions.
        boundaries: (k,) readings of the clock, strictly increasing.
        confidence: 0..1; by default how even the boundaries are, the share of their distances within 15 % of the mean: it
            does not say how probably they are epochs.
        average: makes one period of all distances.
        scores: see `Detection`.
    """
    scores = scores or {}
    if boundaries.size < 2:
        return Detection("none", None, None, (), 0.0, method, clock.name, scores=scores)
    distances = np.diff(boundaries)
    if confidence is None:
        confidence = float(np.mean(np.abs(distances / distances.mean() - 1) <= EVEN))
    times = clock.to_wall(boundaries)
    period = float(average(np.diff(times)))
    work = float(average(distances)) if clock.name == "work" else None
    epochs = tuple(Epoch(start, end, confidence) for start, end in pairwise(times.tolist()))
    jobs = (JobEpochs(period, epochs, confidence),)
    return Detection("epochs", period, work, epochs, confidence, method, clock.name, jobs=jobs, scores=scores)
