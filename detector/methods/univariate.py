"""What the methods that look at one metric share: the series they search, and the answer that boundaries make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection, Epoch, JobEpochs
from epochcast.detector.errors import InputError
from epochcast.detector.signals import Signals

#: Distances of boundaries within this share of their mean are even. By choice, as wide as in ../shared/research/detector.md, 4.
EVEN = 0.15

#: Phases that a cycle is divided into, at most, when it is laid over a series. By choice.
MOST_PHASES = 64


@dataclass(frozen=True)
class MetricSeries:
    """One metric along a clock.

    Attributes:
        values: (n,) in the metric's unit.
        reading: (n,) seconds of the clock, strictly increasing.
    """

    values: NDArray[np.float64]
    reading: NDArray[np.float64]

    @property
    def step(self) -> float:
        """Mean distance of the samples, seconds of the clock."""
        return float(self.reading[-1] - self.reading[0]) / (self.reading.size - 1)

    def pooled(self, most_samples: int) -> "MetricSeries":
        """As it is, or, if it has more samples, the means of as many consecutive ones as bring it to at most that number.

        A mean is placed at the reading of its first sample; a remainder at the end that fills no mean is dropped.

        Raises:
            InputError: fewer than 4 samples wanted.
        """
        if most_samples < 4:
            raise InputError(f"most_samples is {most_samples}: choose at least 4")
        width = -(-self.values.size // most_samples)
        count = self.values.size // width
        means = self.values[: count * width].reshape(count, width).mean(axis=1)
        return MetricSeries(means, self.reading[: count * width : width])


def sampled(signals: Signals, clock: Clock, name: str) -> MetricSeries:
    """The metric's samples as they are; on the work clock as many samples, evenly spaced in work."""
    if clock.name == "wall":
        return MetricSeries(signals.metrics[name], clock.reading)
    return even(signals, clock, name)


def even(signals: Signals, clock: Clock, name: str) -> MetricSeries:
    """As many samples as the trace has, evenly spaced on the clock."""
    reading = np.linspace(clock.reading[0], clock.reading[-1], signals.time.size)
    return MetricSeries(clock.resample(name, signals.metrics[name], reading), reading)


def laid(series: MetricSeries, period: float) -> tuple[NDArray[np.float64], float]:
    """Boundaries a period apart, for methods that find a period but no phase.

    They are where the mean cycle rises most: after validation or a pause the next epoch's training begins.

    Args:
        series: to fold.
        period: seconds of the clock, at most the series' length.

    Returns:
        (k,) readings of the boundaries within the series, and the share of the series' variance that its mean cycle
        explains, 0..1.
    """
    start = series.reading[0]
    phases = int(np.clip(period / series.step, 2, MOST_PHASES))
    phase = ((series.reading - start) / period % 1 * phases).astype(int).clip(0, phases - 1)
    count = np.bincount(phase, minlength=phases)
    cycle = np.bincount(phase, series.values, phases) / np.maximum(count, 1)
    steepest = int(np.argmax(cycle - np.roll(cycle, 1)))
    boundaries = np.arange(start + steepest / phases * period, series.reading[-1], period)
    spread = float(np.var(series.values))
    explained = float(np.average((cycle - series.values.mean()) ** 2, weights=count)) / spread if spread > 0 else 0.0
    return boundaries, min(explained, 1.0)


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
