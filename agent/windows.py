"""What ``/metrics`` shows of one device: last values, statistics over clock-aligned windows, integrals of ratios."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .catalog import Metric

Vector = NDArray[np.float64]

# A slow metric read at t is due again at t+1; past this age (seconds of sample time) the reading failed and is not repeated.
SLOW_READING_LIFE = 1.5
# Past this gap (seconds) between two readings nobody knows what a ratio was in between, and nothing is added to its integral.
LONGEST_GAP = 5.0


@dataclass(frozen=True)
class Summary:
    """One device's vectors, in the order of its metrics; NaN where there is nothing to show.

    ``last``: newest values. ``mean``, ``low``, ``high``: over the last complete window. ``integral``: value · seconds since the
    agent started, for ratios: the busy time.
    """

    last: Vector
    mean: Vector
    low: Vector
    high: Vector
    integral: Vector


class Windows:
    """Running statistics over windows of ``length`` seconds that begin at multiples of ``length`` in unix time.

    Aligned windows, not "since the last scrape": two scrapers must not disturb each other.
    """

    def __init__(self, metrics: Sequence[Metric], length: float) -> None:
        n = len(metrics)
        self._length = length
        self._slow = np.array([metric.tier == "slow" for metric in metrics], dtype=bool)
        self._last = np.full(n, np.nan)
        self._last_time = np.full(n, np.nan)
        self._integral = np.zeros(n)
        self._newest = np.nan
        self._complete = (np.full(n, np.nan),) * 3
        self._open(0.0)

    def _open(self, window: float) -> None:
        n = len(self._last)
        self._window = window
        self._count = np.zeros(n)
        self._sum = np.zeros(n)
        self._low = np.full(n, np.nan)
        self._high = np.full(n, np.nan)

    def add(self, time: float, values: Vector) -> None:
        """Take in the row of ``time`` (unix seconds), NaN where there is no value."""
        window = time // self._length
        if window != self._window:
            nothing = np.full(len(values), np.nan)
            mean = np.divide(self._sum, self._count, out=nothing.copy(), where=self._count > 0)
            # After a silence of a whole window or more, the window before this one is empty.
            self._complete = (mean, self._low, self._high) if window == self._window + 1 else (nothing,) * 3
            self._open(window)
        there = ~np.isnan(values)
        # A value describes the time since the reading before it (a rate, an activity ratio), hence value · gap.
        gap = time - self._last_time
        known = there & (gap > 0) & (gap <= LONGEST_GAP)
        self._integral[known] += values[known] * gap[known]
        self._count += there
        self._sum[there] += values[there]
        np.fmin(self._low, values, out=self._low)
        np.fmax(self._high, values, out=self._high)
        self._last[there] = values[there]
        self._last_time[there] = time
        self._newest = time

    def summary(self) -> Summary:
        """Return copies of the present state."""
        age = self._newest - self._last_time
        fresh = age <= np.where(self._slow, SLOW_READING_LIFE, 0.0)
        mean, low, high = self._complete
        return Summary(
            last=np.where(fresh, self._last, np.nan),
            mean=mean.copy(),
            low=low.copy(),
            high=high.copy(),
            integral=self._integral.copy(),
        )
