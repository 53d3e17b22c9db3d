"""Metrics that DCGM has in another form: shares of time from its counters of time, and Xid errors from its samples."""

from collections import Counter
from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.plausible import share_of_time
from epochcast.agent.sources.dcgm_values import TIME_FIELDS

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
                values[row, column] = share_of_time(share) if share >= 0 else nan


class XidSamples:
    """Finds new Xid errors: every sample of DCGM's field is one, stored when the driver reports it and at no other time."""

    def __init__(self) -> None:
        self._newest = Counter[int]()

    def take(self, devices: Devices, times: NDArray[np.int64], codes: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return (device, code) of the samples [n] that are new: time (µs) and code of an error, which is no 0."""
        new = []
        for device, time, code in sorted(zip(devices.tolist(), times.tolist(), codes.tolist(), strict=True)):
            if time > self._newest[device] and code > 0:
                self._newest[device] = time
                new.append((device, code))
        return new


def time_columns(numbers: Sequence[int]) -> list[int]:
    """Return the places of the counters of time among the fields of the columns."""
    return [column for column, number in enumerate(numbers) if number in TIME_FIELDS]
