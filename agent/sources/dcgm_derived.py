"""Metrics that DCGM has in another form: shares of time from its counters of time, and Xid errors from its events."""

from collections import Counter
from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Metric
from epochcast.agent.sources.dcgm_values import TIME_FIELDS, XID_COUNT, XID_FIELD

Vector = NDArray[np.float64]
Devices = NDArray[np.int64]


class TimeShares:
    """Puts the share of time since the reading before in the place of counters of time.

    ``columns``: where the rows hold seconds of such a counter.
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = columns
        # By device and column: time and value of the newest reading.
        self._before: dict[tuple[int, int], tuple[float, float]] = {}

    def convert(self, devices: Devices, times: Vector, values: Vector) -> None:
        """Change the columns of ``values`` [rows, columns] in place; NaN where the share cannot be known."""
        for column in self.columns:
            for row in np.flatnonzero(~np.isnan(values[:, column])).tolist():
                device, time, value = int(devices[row]), float(times[row]), float(values[row, column])
                time_before, value_before = self._before.get((device, column), (nan, nan))
                self._before[device, column] = time, value
                share = (value - value_before) / (time - time_before) if time > time_before else nan
                values[row, column] = min(share, 1.0) if share >= 0 else nan


class XidSamples:
    """Counts Xid errors: every sample of DCGM's field is one, stored when the driver reports it and at no other time.

    So rows would have a value at the time of an error alone; `fill` puts the present state into all that have readings of the
    same tier. ``metrics``: those of the columns, by number of the field.
    """

    def __init__(self, metrics: dict[int, Metric]) -> None:
        numbers = list(metrics)
        self._states: dict[int, Counter[int]] = {number: Counter() for number in (XID_COUNT, XID_FIELD)}
        self._newest = Counter[int]()
        # For each of our columns: by device its value; which columns are read at the same time.
        self._columns = [
            (
                numbers.index(number),
                state,
                [
                    i
                    for i, other in enumerate(numbers)
                    if metrics[other].tier == metrics[number].tier and other not in self._states
                ],
            )
            for number, state in self._states.items()
            if number in metrics
        ]

    def take(self, devices: Devices, times: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Take in samples [n]: time (µs) and number of an error; one that is known counts no more, nor does a 0."""
        for device, time, number in sorted(zip(devices.tolist(), times.tolist(), numbers.tolist(), strict=True)):
            if time > self._newest[device] and number > 0:
                self._newest[device] = time
                self._states[XID_COUNT][device] += 1
                self._states[XID_FIELD][device] = number

    def fill(self, devices: Devices, values: Vector) -> None:
        """Put what holds now into ``values`` [rows, columns]."""
        for column, state, peers in self._columns:
            rows = (~np.isnan(values[:, peers])).any(axis=1)
            values[rows, column] = [state[device] for device in devices[rows].tolist()]


def time_columns(numbers: Sequence[int]) -> list[int]:
    """Return the places of the counters of time among the fields of the columns."""
    return [column for column, number in enumerate(numbers) if number in TIME_FIELDS]
