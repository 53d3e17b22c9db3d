"""What ``/metrics`` shows of one device: last values, statistics over clock-aligned windows, integrals of ratios."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import PARTS, Metric, Part

Vector = NDArray[np.float64]
Table = NDArray[np.float64]

# A fast metric read at t is due again at t + 0.1 (DCGM may measure others in between), a slow one at t + 1, a rare one at
# t + 60; past this age (seconds of sample time) the reading failed and is not repeated.
READING_LIFE = {"fast": 0.09, "slow": 1.5, "rare": 90.0, "derived": 0.09}
# Past this gap (seconds) between two readings nobody knows what a ratio was in between, and nothing is added to its integral.
LONGEST_GAP = {"fast": 5.0, "slow": 5.0, "rare": 90.0, "derived": 5.0}


class Windows:
    """Running statistics over windows of ``length`` seconds that begin at multiples of ``length`` in unix time.

    Aligned windows, not "since the last scrape": two scrapers must not disturb each other. The window in which sampling began
    is not shown: it is not whole.
    """

    def __init__(self, metrics: Sequence[Metric], length: float) -> None:
        n = len(metrics)
        self.metrics = tuple(metrics)
        self.length = length
        self._life = np.array([READING_LIFE[metric.tier] for metric in metrics])
        self._longest_gap = np.array([LONGEST_GAP[metric.tier] for metric in metrics])
        self._last = np.full(n, np.nan)
        self._last_time = np.full(n, np.nan)
        self._integral = np.zeros(n)
        self._newest = np.nan
        nothing = np.full(n, np.nan)
        self._complete = (nothing, nothing, nothing)
        self._began: float | None = None
        self._open(np.nan)

    def _open(self, window: float) -> None:
        n = len(self.metrics)
        self._window = window
        self._count = np.zeros(n)
        self._sum = np.zeros(n)
        self._low = np.full(n, np.nan)
        self._high = np.full(n, np.nan)

    def extend(self, time: Vector, values: Table) -> None:
        """Take in rows: ``time`` [rows] (unix seconds, in the order of arrival), ``values`` [rows, metrics], NaN for no value.

        Rows come by the dozen: a call costs the same for one as for a hundred.
        """
        there = ~np.isnan(values)
        self._integrate(time, values, there)
        number = time // self.length
        first = 0
        for last in (*(np.flatnonzero(np.diff(number)) + 1), len(number)):
            self._add_to_window(float(number[first]), values[first:last], there[first:last])
            first = last
        self._newest = float(time[-1])

    def _integrate(self, time: Vector, values: Table, there: NDArray[np.bool_]) -> None:
        # Row number (from 1) of the newest value up to each row, 0 where it came before these rows.
        newest = np.maximum.accumulate(np.where(there, np.arange(1, len(time) + 1)[:, None], 0), axis=0)
        before = np.vstack([np.zeros_like(newest[:1]), newest[:-1]])
        # A value describes the time since the reading before it (a rate, an activity ratio), hence value · gap.
        gap = time[:, None] - np.where(before > 0, time[before - 1], self._last_time)
        known = there & (gap > 0) & (gap <= self._longest_gap)
        self._integral += np.multiply(values, gap, out=np.zeros_like(values), where=known).sum(axis=0)
        ever = newest[-1] > 0
        self._last[ever] = values[newest[-1] - 1, np.arange(values.shape[1])][ever]
        self._last_time[ever] = time[newest[-1] - 1][ever]

    def _add_to_window(self, window: float, values: Table, there: NDArray[np.bool_]) -> None:
        if window != self._window:
            nothing = np.full(values.shape[1], np.nan)
            whole = self._began is not None and self._window > self._began
            # After a silence of a whole window or more, the window before this one is empty.
            if whole and window == self._window + 1:
                mean = np.divide(self._sum, self._count, out=nothing.copy(), where=self._count > 0)
                self._complete = (mean, self._low, self._high)
            else:
                self._complete = (nothing, nothing, nothing)
            # A clock that was set back starts again: nothing would be shown until the new time is past the old.
            if self._began is None or window < self._window:
                self._began = window
            self._open(window)
        self._count += there.sum(axis=0)
        self._sum += np.where(there, values, 0.0).sum(axis=0)
        self._low = np.fmin(self._low, np.fmin.reduce(values, axis=0))
        self._high = np.fmax(self._high, np.fmax.reduce(values, axis=0))

    def inherit(self, other: "Windows") -> None:
        """Go on from where the windows of the same device stood before its source was reopened."""
        positions = {metric.name: position for position, metric in enumerate(other.metrics)}
        for position, metric in enumerate(self.metrics):
            if metric.name in positions:
                self._integral[position] = other._integral[positions[metric.name]]

    def summary(self) -> dict[Part, Vector]:
        """Return the present state of each of `PARTS`, in the order of the metrics; NaN where there is nothing to show.

        ``avg``, ``min``, ``max`` are of the last complete window, ``seconds`` the integral since the agent started (of a ratio:
        the busy time).
        """
        fresh = self._newest - self._last_time <= self._life
        parts = (np.where(fresh, self._last, np.nan), *self._complete, self._integral.copy())
        return dict(zip(PARTS, parts, strict=True))
