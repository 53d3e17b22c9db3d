"""From rows as they come, uneven and with empty readings, to the next samples of an even grid."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..signals import COUNTERS, LARGEST
from .work import hole_s

Array = NDArray[np.float64]


class Resampler:
    """Rows of some metrics, brought to an even grid as `detect` does: readings carried forward, times interpolated.

    Attributes:
        origin: unix seconds of the grid's sample 0; None before the first row.
        dropped: rows that were no later than the one before them.
    """

    def __init__(self, metrics: Sequence[str], step_s: float) -> None:
        self.metrics = tuple(metrics)
        self.step_s = step_s
        self.origin: float | None = None
        self.dropped = 0
        self._counter = np.array([name in COUNTERS for name in self.metrics])
        self._taken = 0
        self._time = -np.inf
        self._reading = self._value = np.full(len(self.metrics), np.nan)
        self._counts = np.zeros(len(self.metrics) + 1)

    def parted(self, time: Array) -> NDArray[np.int64]:
        """Rows that begin anew, because they come longer than a hole after the row before, or as much earlier."""
        before = time[0] if self.origin is None else self._time
        return np.flatnonzero(np.abs(np.diff(np.concatenate([[before], time]))) > hole_s(self.step_s))

    def begin_anew(self) -> None:
        """What comes next has nothing to do with what came before."""
        self.origin, self._taken, self._time = None, 0, -np.inf
        self._reading = self._value = np.full(len(self.metrics), np.nan)
        self._counts = np.zeros(len(self.metrics) + 1)

    def take(self, time: Array, table: Array) -> tuple[Array, Array]:
        """The grid's next samples from rows `time` (n,) and `table` (metrics, n) with NaN for no reading.

        Returns:
            The samples, (metrics, k), and until each the changes of every metric and last the rows, (metrics + 1, k).
        """
        later = time > np.maximum.accumulate(np.concatenate([[self._time], time]))[:-1]
        if not later.all():
            self.dropped += int((~later).sum())
            time, table = time[later], table[:, later]
        if not time.size:
            return np.empty((len(self.metrics), 0)), np.empty((len(self.metrics) + 1, 0))
        filled = _carried(np.concatenate([self._reading[:, None], table], axis=1))
        new = np.ones((len(self.metrics) + 1, time.size))
        new[:-1] = np.abs(np.diff(filled, axis=1)) > 0  # NaN, before the first reading, is not
        counts = np.cumsum(np.concatenate([self._counts[:, None], new], axis=1), axis=1)
        times = np.concatenate([[self._time], time])
        values = filled.copy()
        if self._counter.any():
            values[self._counter, 1:] = np.maximum(np.diff(filled[self._counter]), 0) / np.diff(times)
        values[:, 0] = self._value
        if self.origin is None:
            self.origin = float(time[0])
            times[0] = time[0] - self.step_s
        first = np.isnan(values[:, 0])
        values[first, 0] = values[first, 1]  # a metric's first reading is not mixed with the nothing before it
        last = int(np.floor((time[-1] - self.origin) / self.step_s + 1e-6))
        wanted = self.origin + self.step_s * np.arange(self._taken, last + 1)
        self._taken = last + 1
        self._time, self._reading, self._value = float(time[-1]), filled[:, -1], values[:, -1]
        self._counts = counts[:, -1]
        until = np.searchsorted(times, wanted + 1e-6 * self.step_s, side="right") - 1
        return np.array([np.interp(wanted, times, row) for row in values]), counts[:, until]

    def checked(self, time: ArrayLike, values: Mapping[str, ArrayLike]) -> tuple[Array, Array]:
        """Rows as arrays, (n,) and (metrics, n); a metric that is left out has no reading.

        Raises:
            InputError: an unknown metric, another length than the times', something else than numbers, a time that is NaN or
                infinite, a value beyond 1e100.
        """
        times = _floats("time", time)
        if not np.isfinite(times).all():
            raise InputError(f"time holds {times[~np.isfinite(times)][0]}: every sample needs a finite time in unix seconds")
        table = np.full((len(self.metrics), times.size), np.nan)
        for name, column in values.items():
            if name not in self.metrics:
                raise InputError(f"metric {name!r} is not one of this stream's: {', '.join(self.metrics)}")
            row = _floats(f"metric {name!r}", column)
            if row.size != times.size:
                raise InputError(f"metric {name!r} has {row.size} values for {times.size} times: give one value per time")
            table[self.metrics.index(name)] = row
        if (beyond := np.abs(table) > LARGEST).any():
            metric, at = np.argwhere(beyond)[0]
            raise InputError(f"metric {self.metrics[metric]!r} holds {table[metric, at]}: give NaN where there is no reading")
        return times, table


def _floats(what: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} holds something that is not a number ({error}): give floats") from error
    if array.ndim != 1:
        raise InputError(f"{what} has {array.ndim} dimensions: give one value per sample")
    return array


def _carried(table: Array) -> Array:
    """Readings carried forward along the rows."""
    if not np.isnan(table).any():
        return table
    at = np.where(np.isnan(table), 0, np.arange(table.shape[1]))
    return np.take_along_axis(table, np.maximum.accumulate(at, axis=1), axis=1)
