"""The seconds in which a GPU's memory is held and nothing runs, of rows that come in pieces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from epochcast.held_idle import ACTIVITY, held_idle

Array = NDArray[np.float64]

HELD_IDLE_COLUMNS = frozenset(("held_idle", "memory_used", *ACTIVITY))
"""What the seconds are made of."""

# A reading holds for so many of its intervals, as in the agent (READING_LIFE): a late one is still the next.
_LIFE = 1.5

# Nobody knows what happened in a gap that is longer than both (rows, seconds); a fleet's traces have their holes so, too.
_HOLE_ROWS, _HOLE_S = 10, 1.0


class HeldIdle:
    """Adds them up, by the recorded column ``held_idle`` and, where it has no value, by its rule from memory and activity.

    A value counts for the time since the one before, as in the agent's integrals; a hole counts nothing.

    Attributes:
        seconds: so far; None while no row says whether the GPU is held but idle.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """Begin with no row, and with the seconds that are known of rows before."""
        self.seconds = seconds
        self._row_s = np.nan  # from row to row
        self._last_row = self._last_known = np.nan  # unix seconds
        self._read: dict[str, tuple[float, float, float]] = {}  # of a column: newest reading's time and value, its interval

    def add(self, time: Array, values: Mapping[str, Array]) -> None:
        """Take in rows, later than all before: ``time`` (n,) unix seconds, ``values`` column -> (n,), NaN for no reading."""
        if not time.size:
            return
        steps = np.diff(np.concatenate([[self._last_row], time]))
        if np.isnan(self._row_s) and np.isfinite(steps).any():
            self._row_s = float(np.nanmedian(steps))
        self._last_row = float(time[-1])
        state = self._states(time, values)
        known = np.flatnonzero(~np.isnan(state))
        if not known.size:
            return
        gaps = np.diff(np.concatenate([[self._last_known], time[known]]))
        counted = gaps <= max(_HOLE_S, _HOLE_ROWS * self._row_s)  # none before the first row
        self.seconds = (self.seconds or 0.0) + float((state[known] * gaps)[counted].sum())
        self._last_known = float(time[known[-1]])

    def _states(self, time: Array, values: Mapping[str, Array]) -> Array:
        """1 for held but idle, 0 for not, NaN for unknown, of each row."""
        nothing = np.full(time.size, np.nan)
        recorded = values.get("held_idle", nothing)
        if not np.isnan(recorded).any():
            return recorded
        activity = next((name for name in ACTIVITY if name in self._read or _any(values.get(name, nothing))), None)
        if activity is None:
            return recorded
        computed = held_idle(*(self._held(name, time, values.get(name, nothing)) for name in ("memory_used", activity)))
        return np.where(np.isnan(recorded), computed, recorded)

    def _held(self, name: str, time: Array, column: Array) -> Array:
        """A column with its readings held until the next is due."""
        at, last, interval = self._read.get(name, (np.nan, np.nan, 0.0))
        times, rows = np.concatenate([[at], time]), np.concatenate([[last], column])
        read = np.flatnonzero(~np.isnan(rows))
        if not read.size:
            return column
        if read.size > 1:
            interval = float(np.median(np.diff(times[read])))
        self._read[name] = float(times[read[-1]]), float(rows[read[-1]]), interval
        newest = read[np.maximum(np.searchsorted(read, np.arange(rows.size), side="right") - 1, 0)]
        age = times - times[newest]
        return np.where((age >= 0) & (age <= _LIFE * interval), rows[newest], np.nan)[1:]


def held_idle_s(time: Array, values: Mapping[str, Array]) -> float | None:
    """Return the seconds of rows that are all there; see `HeldIdle`."""
    held = HeldIdle()
    held.add(time, values)
    return held.seconds


def _any(column: Array) -> bool:
    return not bool(np.isnan(column).all())
