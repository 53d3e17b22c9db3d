"""Columns that follow from a device's readings: how much of its arithmetic is used, and whether it is held but idle."""

import math

import numpy as np

from epochcast.agent.catalog import catalog
from epochcast.agent.sources import Device
from epochcast.agent.windows import READING_LIFE, Table, Vector
from epochcast.held_idle import ACTIVITY, held_idle


class DerivedColumns:
    """The derived columns that one device's readings allow; none is guessed from less.

    - ``ofu``, overall FLOP utilization (arXiv 2605.20799): ``tensor_active`` times SM clock over the highest SM clock.
    - ``held_idle``: 1 while memory is held and nothing runs, else 0 (`epochcast.held_idle`).

    ``metrics``: those columns, in the order of `of`.
    """

    def __init__(self, device: Device) -> None:
        self._position = {metric.name: position for position, metric in enumerate(device.metrics)}
        self._activity = next((name for name in ACTIVITY if name in self._position), None)
        self._highest_clock = float(device.static["max_sm_clock"].value) if "max_sm_clock" in device.static else math.nan
        has = self._position.keys()
        allowed = {
            "ofu": {"tensor_active", "sm_clock"} <= has and self._highest_clock > 0,
            "held_idle": "memory_used" in has and self._activity is not None,
        }
        self.metrics = tuple(catalog()[name] for name, possible in allowed.items() if possible and name not in has)
        # The newest reading of each slow column before the rows at hand: its time and value.
        self._before: dict[str, tuple[float, float]] = {}

    def of(self, time: Vector, values: Table) -> Table:
        """Return the derived columns [rows, metrics] of rows: ``time`` [rows] (unix seconds), ``values`` [rows, readings]."""
        by_name = {"ofu": self._ofu, "held_idle": self._held_idle}
        columns = [by_name[metric.name](time, values) for metric in self.metrics]
        return np.column_stack(columns) if columns else np.empty((len(time), 0))

    def _ofu(self, time: Vector, values: Table) -> Vector:
        return values[:, self._position["tensor_active"]] * self._held("sm_clock", time, values) / self._highest_clock

    def _held_idle(self, time: Vector, values: Table) -> Vector:
        assert self._activity is not None
        memory = self._held("memory_used", time, values)
        activity = self._held(self._activity, time, values)
        return np.asarray(held_idle(memory, activity))

    def _held(self, name: str, time: Vector, values: Table) -> Vector:
        """A column with its readings held until the next is due."""
        at, last = self._before.get(name, (0.0, math.nan))
        rows = np.concatenate(([last], values[:, self._position[name]]))
        times = np.concatenate(([at], time))
        newest = np.maximum.accumulate(np.where(np.isnan(rows), 0, np.arange(len(rows))))
        self._before[name] = float(times[newest[-1]]), float(rows[newest[-1]])
        fresh = times - times[newest] <= READING_LIFE[catalog()[name].tier]
        return np.where(fresh, rows[newest], np.nan)[1:]
