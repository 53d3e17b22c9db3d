"""What the methods to compare with share: fewer samples of a metric, and boundaries where a method finds only a period."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.errors import InputError
from epochcast.detector.methods.univariate import MetricSeries

#: Phases that a cycle is divided into, at most, when it is laid over a series. By choice.
MOST_PHASES = 64


def mean_step(series: MetricSeries) -> float:
    """Mean distance of the samples, seconds of the clock."""
    return float(series.reading[-1] - series.reading[0]) / (series.reading.size - 1)


def pooled(series: MetricSeries, most_samples: int) -> MetricSeries:
    """A series as it is, or, if it has more samples, the means of as many consecutive ones as bring it to at most that number.

    A mean is placed at the reading of its first sample; a remainder at the end that fills no mean is dropped.

    Raises:
        InputError: fewer than 4 samples wanted.
    """
    if most_samples < 4:
        raise InputError(f"most_samples is {most_samples}: choose at least 4")
    width = -(-series.values.size // most_samples)
    count = series.values.size // width
    means = series.values[: count * width].reshape(count, width).mean(axis=1)
    return MetricSeries(means, series.reading[: count * width : width])


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
    start, step = series.reading[0], mean_step(series)
    phases = int(np.clip(period / step, 2, MOST_PHASES))
    phase = ((series.reading - start) / period % 1 * phases).astype(int).clip(0, phases - 1)
    count = np.bincount(phase, minlength=phases)
    cycle = np.bincount(phase, series.values, phases) / np.maximum(count, 1)
    steepest = int(np.argmax(cycle - np.roll(cycle, 1)))
    boundaries = np.arange(start + steepest / phases * period, series.reading[-1], period)
    spread = float(np.var(series.values))
    explained = float(np.average((cycle - series.values.mean()) ** 2, weights=count)) / spread if spread > 0 else 0.0
    return boundaries, min(explained, 1.0)
