"""Readings that cannot be true are left out before anybody sees them: a driver in trouble answers with all ones or -1."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.sources import Device

Vector = NDArray[np.float64]
Table = NDArray[np.float64]

# Of a power limit. Boards exceed it for some milliseconds, an H200 by a tenth (data/h200).
TIMES_POWER_LIMIT = 3.0
# A counter that fell, or rose faster than it can, has begun again once it has gone on from there for so long (seconds): the
# driver was loaded again.
SETTLED_S = 60.0
# Counters of time run ahead of the clock by up to the driver's 0.1 s in each second.
AHEAD = 1.2


def share_of_time(rate: float) -> float:
    """Return the share of time that a counter of seconds means which grew by ``rate`` a second; a wild one stays too high."""
    return min(rate, 1.0) if rate <= AHEAD else rate


class _Level(NamedTuple):
    """A counter's value at a time (unix seconds)."""

    time: float
    value: float


class Plausible:
    """Takes out of one device's rows what is outside of its metric's bounds, and counters that jump.

    ``left_out``: values taken out so far, by metric.
    """

    def __init__(self, device: Device) -> None:
        self.left_out = Counter[str]()
        self._metrics = device.metrics
        limit = device.static.get("power_limit")
        watts = TIMES_POWER_LIMIT * float(limit.value) if limit else np.inf
        self._least = np.array([metric.least for metric in device.metrics])
        self._most = np.array([min(metric.most, watts) if metric.unit == "W" else metric.most for metric in device.metrics])
        # Of a counter: how much it can grow in a second.
        self._growth = {
            position: watts if metric.unit == "J" else np.inf
            for position, metric in enumerate(device.metrics)
            if metric.kind == "counter"
        }
        self._believed: dict[int, _Level] = {}
        self._doubted: dict[int, _Level] = {}

    def clean(self, time: Vector, values: Table) -> Table:
        """Return ``values`` [rows, metrics] of rows at ``time`` [rows] (unix seconds), NaN where one cannot be true."""
        wrong = (values < self._least) | (values > self._most)
        for position, growth in self._growth.items():
            for row in np.flatnonzero(~np.isnan(values[:, position]) & ~wrong[:, position]).tolist():
                level = _Level(float(time[row]), float(values[row, position]))
                wrong[row, position] = not self._goes_on(position, level, growth)
        if not wrong.any():
            return values
        for position in np.flatnonzero(wrong.any(axis=0)).tolist():
            self.left_out[self._metrics[position].name] += int(wrong[:, position].sum())
        return np.where(wrong, np.nan, values)

    def _goes_on(self, position: int, level: _Level, growth: float) -> bool:
        """Whether a counter can have come to this value; keep in mind what it has come to."""
        if not _follows(self._believed.get(position, level), level, growth):
            doubted = self._doubted.get(position)
            if doubted is None or not _follows(doubted, level, growth):
                doubted = self._doubted[position] = level
            # What only counts errors may stand still; energy does not.
            stuck = np.isfinite(growth) and level.value == doubted.value
            if stuck or level.time - doubted.time < SETTLED_S:
                return False
        self._believed[position] = level
        self._doubted.pop(position, None)
        return True


def _follows(before: _Level, level: _Level, growth: float) -> bool:
    # A driver refreshes its counter at its own times: one second more than has passed.
    most = growth * (max(level.time - before.time, 0.0) + 1.0)
    return 0 <= level.value - before.value <= most
