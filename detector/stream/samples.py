"""From rows as they come, uneven and with empty readings, to the next samples of an even grid."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector.errors import InputError
from epochcast.detector.methods.track.boundaries import EVEN
from epochcast.detector.methods.track.grid import FEWEST_SAMPLES
from epochcast.detector.signals import COUNTERS, LARGEST, carried, vector
from epochcast.detector.stream.work import hole_s

Array = NDArray[np.float64]

#: A row this near to a place of the grid, in steps, is its sample; in between, rows are interpolated. Interpolating between all
#: smooths: of slow readings that drift against the grid by half a step, a cycle of seven was gone. By choice.
NEAR = 0.5

#: So many samples without a row are a hole: fewer make no cycle that can be found, of `FEWEST_SAMPLES`, uneven.
HOLE = EVEN * FEWEST_SAMPLES


class Resampler:
    """Rows of some metrics, brought to an even grid: readings carried forward, the nearest row or rows interpolated.

    Attributes:
        origin: unix seconds of the grid's sample 0; None before the first row.
        newest: unix seconds of the last row.
        dropped: rows that were no later than the one before them.
        counters: places of metrics that only grow.
    """

    def __init__(self, metrics: Sequence[str], step_s: float) -> None:
        self.metrics = tuple(metrics)
        self.step_s = step_s
        self.origin: float | None = None
        self.dropped = 0
        self.counters = [row for row, name in enumerate(self.metrics) if name in COUNTERS]
        self.begin_anew()

    def parted(self, time: Array) -> tuple[list[int], list[int]]:
        """Rows that start again, because they come too long after the row before, or earlier; and rows after shorter holes."""
        before = time[0] if self.origin is None else self.newest
        steps = np.diff(np.concatenate([[before], time]))
        anew = np.abs(steps) > hole_s(self.step_s)
        return np.flatnonzero(anew).tolist(), np.flatnonzero(~anew & (steps > HOLE * self.step_s)).tolist()

    def begin_anew(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.origin, self._taken, self.newest = None, 0, -np.inf
        self._reading = np.full(len(self.metrics), np.nan)
        # Of counters: when they were last read, and how fast they grew then.
        self._read_at, self._rate = self._reading.copy(), self._reading.copy()
        # Rows that the next samples may need: times, values and counts.
        self._rest = np.array([-np.inf]), self._reading[:, None], np.zeros((len(self.metrics) + 1, 1))

    def take(self, time: Array, table: Array) -> tuple[Array, Array]:
        """The grid's next samples from rows `time` (n,) and `table` (metrics, n) with NaN for no reading.

        Returns:
            The samples, (metrics, k), and until each the changes of every metric and last the rows, (metrics + 1, k).
        """
        later = time > np.maximum.accumulate(np.concatenate([[self.newest], time]))[:-1]
        if not later.all():
            self.dropped += int((~later).sum())
            time, table = time[later], table[:, later]
        if not time.size:
            return np.empty((len(self.metrics), 0)), np.empty((len(self.metrics) + 1, 0))
        filled = carried(np.concatenate([self._reading[:, None], table], axis=1))
        new = np.ones((len(self.metrics) + 1, time.size))
        new[:-1] = np.abs(np.diff(filled, axis=1)) > 0  # NaN, before the first reading, is not
        values = filled[:, 1:].copy()
        for row in self.counters:
            values[row] = self._grown(row, time, table[row])
        old_times, old_values, old_counts = self._rest
        if self.origin is None:
            self.origin = float(time[0])
            old_times = np.array([time[0] - self.step_s])
        times = np.concatenate([old_times, time])
        first = np.isnan(old_values[:, -1])
        old_values[first] = values[first, :1]  # a metric's first reading is not mixed with the nothing before it
        values = np.concatenate([old_values, values], axis=1)
        counts = np.concatenate([old_counts, old_counts[:, -1:] + np.cumsum(new, axis=1)], axis=1)
        self.newest, self._reading = float(time[-1]), filled[:, -1]
        last = max(self._taken - 1, int(np.floor((time[-1] - self.origin) / self.step_s - NEAR + 1e-6)))
        wanted = self.origin + self.step_s * np.arange(self._taken, last + 1)
        self._taken = last + 1
        keep = max(0, int(np.searchsorted(times, self.origin + self.step_s * self._taken)) - 1)
        self._rest = times[keep:], values[:, keep:], counts[:, keep:]
        after = np.clip(np.searchsorted(times, wanted), 1, times.size - 1)
        nearest = after - (wanted - times[after - 1] <= times[after] - wanted)
        near = np.abs(times[nearest] - wanted) <= NEAR * self.step_s
        even = np.array([np.interp(wanted, times, row) for row in values])
        even[:, near] = values[:, nearest[near]]
        return even, counts[:, nearest]

    def _grown(self, row: int, time: Array, column: Array) -> Array:
        """Growth per second of counter `row`, (n,), from its readings `column` at `time`; held from reading to reading."""
        read = np.flatnonzero(~np.isnan(column))
        rates = np.full(1 + time.size, np.nan)
        rates[0] = self._rate[row]
        growth = np.diff(np.concatenate([self._reading[row, None], column[read]]))
        rates[1 + read] = np.maximum(growth, 0) / np.diff(np.concatenate([self._read_at[row, None], time[read]]))
        rates = carried(rates[None])[0, 1:]
        if read.size:
            self._read_at[row], self._rate[row] = time[read[-1]], rates[-1]
        return rates

    def checked(self, time: ArrayLike, values: Mapping[str, ArrayLike]) -> tuple[Array, Array]:
        """Rows as arrays, (n,) and (metrics, n); a metric that is left out has no reading.

        Raises:
            InputError: an unknown metric, another length than the times', something else than numbers, a time that is NaN or
                infinite, a value beyond 1e100.
        """
        times = vector("time", time)
        if not np.isfinite(times).all():
            raise InputError(f"time holds {times[~np.isfinite(times)][0]}: every sample needs a finite time in unix seconds")
        table = np.full((len(self.metrics), times.size), np.nan)
        for name, column in values.items():
            if name not in self.metrics:
                raise InputError(f"metric {name!r} is not one of this stream's: {', '.join(self.metrics)}")
            row = vector(f"metric {name!r}", column)
            if row.size != times.size:
                raise InputError(f"metric {name!r} has {row.size} values for {times.size} times: give one value per time")
            table[self.metrics.index(name)] = row
        if (beyond := np.abs(table) > LARGEST).any():
            metric, at = np.argwhere(beyond)[0]
            raise InputError(f"metric {self.metrics[metric]!r} holds {table[metric, at]}: give NaN where there is no reading")
        return times, table
