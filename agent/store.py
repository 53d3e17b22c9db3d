"""What the agent keeps of one device: its ring, its windows, and when it was last heard of."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .ring import Column, Ring
from .sources import Device
from .windows import Summary, Windows


class DeviceStore:
    """Samples of one device; the sampler writes, HTTP threads read.

    ``missed_ticks``: ticks since the agent started that left no row of this device.
    """

    def __init__(self, device: Device, capacity: int, window: float) -> None:
        self.device = device
        self.missed_ticks = 0
        self._ring = Ring(capacity, device.metrics)
        self._windows = Windows(device.metrics, window)
        self._heard_at = -np.inf
        self._lock = threading.Lock()

    def add(self, time: float, values: NDArray[np.float64], now: float) -> None:
        """Take in the row of ``time`` (unix seconds), read at ``now`` of the monotonic clock."""
        self._ring.append(time, values)
        with self._lock:
            self._windows.add(time, values)
            self._heard_at = now

    def samples(
        self, start: float, stop: float, metrics: Sequence[str] | None
    ) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return the ring's rows with times in ``[start, stop)``; see `Ring.read`."""
        return self._ring.read(start, stop, metrics)

    def summary(self, heard_since: float) -> Summary | None:
        """Return the present state, None when the device was not heard of since that moment of the monotonic clock."""
        with self._lock:
            return self._windows.summary() if self._heard_at >= heard_since else None

    @property
    def oldest(self) -> float | None:
        """Time of the oldest row held (unix seconds)."""
        return self._ring.oldest
