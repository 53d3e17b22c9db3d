"""What the agent keeps of one device: its ring, its windows, and when it was last heard of."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .ring import Column, News, Ring
from .sources import Device
from .windows import Summary, Windows

# Rows that wait for the windows: summing up by the dozen costs a tenth of doing it tick by tick.
BLOCK = 64


class DeviceStore:
    """Samples of one device; the sampler writes, HTTP threads read.

    ``missed_ticks``: ticks since the agent started that left no row of this device. ``counted_until``: the newest tick that is
    either in a row or in that count (unix seconds), None before the first.
    """

    def __init__(self, device: Device, capacity: int, window: float) -> None:
        self.device = device
        self.missed_ticks = 0
        self.counted_until: float | None = None
        self._ring = Ring(capacity, device.metrics)
        self._windows = Windows(device.metrics, window)
        self._waiting_time = np.empty(BLOCK)
        self._waiting = np.empty((BLOCK, len(device.metrics)))
        self._waiting_rows = 0
        self._heard_at = -np.inf
        self._lock = threading.Lock()

    def add(self, time: float, values: NDArray[np.float64], now: float) -> None:
        """Take in the row of ``time`` (unix seconds), read at ``now`` of the monotonic clock."""
        self._ring.append(time, values)
        with self._lock:
            self._waiting_time[self._waiting_rows] = time
            self._waiting[self._waiting_rows] = values
            self._waiting_rows += 1
            self._heard_at = now
            if self._waiting_rows == BLOCK:
                self._sum_up()

    def _sum_up(self) -> None:
        rows, self._waiting_rows = self._waiting_rows, 0
        if rows:
            self._windows.extend(self._waiting_time[:rows], self._waiting[:rows])

    def samples(
        self, start: float, stop: float, metrics: Sequence[str] | None
    ) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return the ring's rows with times in ``[start, stop)``; see `Ring.read`."""
        return self._ring.read(start, stop, metrics)

    def since(self, cursor: int) -> News:
        """Return the rows that came after a reader's cursor; see `Ring.since`."""
        return self._ring.since(cursor)

    def summary(self, heard_since: float) -> Summary | None:
        """Return the present state, None when the device was not heard of since that moment of the monotonic clock."""
        with self._lock:
            if self._heard_at < heard_since:
                return None
            self._sum_up()
            return self._windows.summary()

    def take_over(self, old: "DeviceStore") -> None:
        """Go on from the store of the same device whose source was closed: nothing that was sampled is lost.

        Rows that do not fit are the oldest; metrics that this device does not have are left behind.
        """
        self.missed_ticks, self.counted_until = old.missed_ticks, old.counted_until
        with old._lock:
            old._sum_up()
            if (old.device.metrics, old._ring.capacity, old._windows.length) == (
                self.device.metrics,
                self._ring.capacity,
                self._windows.length,
            ):
                self._ring, self._windows = old._ring, old._windows
                return
            self._windows.inherit(old._windows)
        time, columns = old._ring.read()
        nothing = np.full(len(time), np.nan)
        rows = np.column_stack([columns.get(metric.name, nothing) for metric in self.device.metrics])
        for moment, values in zip(time[-self._ring.capacity :], rows[-self._ring.capacity :], strict=True):
            self._ring.append(float(moment), values)

    @property
    def oldest(self) -> float | None:
        """Time of the oldest row held (unix seconds)."""
        return self._ring.oldest

    @property
    def heard_at(self) -> float:
        """Moment of the monotonic clock at which its newest row arrived, -inf before the first."""
        return self._heard_at
