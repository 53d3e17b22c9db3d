"""What the agent keeps of one device: its ring, its windows, and when it was last heard of."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Part
from epochcast.agent.derived import DerivedColumns
from epochcast.agent.plausible import Plausible
from epochcast.agent.ring import Column, Ring
from epochcast.agent.sources import Device
from epochcast.agent.windows import Windows

# Rows that wait until they are stored and summed up, unless somebody asks before: as one array they cost hardly more than one
# of them.
BLOCK = 256

# Values by part and by the name of a metric, NaN for none.
Summary = dict[Part, dict[str, float]]


class DeviceStore:
    """Samples of one device; the sampler writes, HTTP threads read.

    ``device``: with the metrics of a source's rows first, then those derived from them.
    ``missed_ticks``: ticks since the agent started that left no row of this device. ``counted_until``: the newest tick that is
    either in a row or in that count (unix seconds), known while no sampler runs. ``blanks``: readings without a value by
    metric, ``xids``: errors by code, both of the sources before the present one; ``last_xid``: the last of them, 0 for none.
    ``implausible``: values by metric that could not be true. ``refresh``: called before anything is read of the rows; a sampler
    that has rows in hand gives them with `add` then.
    """

    def __init__(self, device: Device, capacity: int, window: float) -> None:
        self._plausible = Plausible(device)
        self.implausible = self._plausible.left_out
        self._derived = DerivedColumns(device)
        self.device = device = replace(device, metrics=(*device.metrics, *self._derived.metrics))
        self.missed_ticks = 0
        self.counted_until: float | None = None
        self.blanks = Counter[str]()
        self.xids = Counter[int]()
        self.last_xid = 0
        self.refresh: Callable[[], None] = nothing_new
        self._ring = Ring(capacity, device.metrics)
        self._windows = Windows(device.metrics, window)
        self._waiting: list[tuple[float, Sequence[float] | NDArray[np.float64]]] = []
        self._heard_at = -np.inf
        self._dropped_before = 0
        self._lock = threading.Lock()

    def add(self, time: float, values: Sequence[float] | NDArray[np.float64], now: float) -> None:
        """Take in the row of ``time`` (unix seconds), read at ``now`` of the monotonic clock; ``values`` is kept as it is."""
        with self._lock:
            self._waiting.append((time, values))
            self._heard_at = now
            if len(self._waiting) >= BLOCK:
                self._take_in()

    def _take_in(self) -> None:
        """Store the rows that wait; the caller holds the lock."""
        if self._waiting:
            time, values = (np.array(part) for part in zip(*self._waiting, strict=True))
            self._waiting.clear()
            values = self._plausible.clean(time, values)
            values = np.hstack([values, self._derived.of(time, values)])
            self._ring.extend(time, values)
            self._windows.extend(time, values)

    def samples(
        self, start: float, stop: float, metrics: Sequence[str] | None
    ) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return the rows with times in ``[start, stop)``; see `Ring.read`."""
        return self._complete().read(start, stop, metrics)

    def since(self, cursor: int) -> tuple[int, int, NDArray[np.float64], dict[str, Column]]:
        """Return the rows that came after a reader's cursor; see `Ring.since`."""
        return self._complete().since(cursor)

    def _complete(self) -> Ring:
        self.refresh()
        with self._lock:
            self._take_in()
            return self._ring

    def summary(self, heard_since: float) -> Summary | None:
        """Return the present state, None when the device was not heard of since that moment of the monotonic clock.

        See `Windows.summary`.
        """
        self.refresh()
        with self._lock:
            if self._heard_at < heard_since:
                return None
            self._take_in()
            parts = self._windows.summary()
        names = [metric.name for metric in self.device.metrics]
        return {part: dict(zip(names, vector.tolist(), strict=True)) for part, vector in parts.items()}

    def take_over(self, old: "DeviceStore") -> None:
        """Go on from the store of the same device whose source was closed: nothing that was sampled is lost.

        Rows that do not fit are the oldest; metrics that this device does not have are left behind.
        """
        self.missed_ticks, self.counted_until, self.blanks = old.missed_ticks, old.counted_until, old.blanks
        self.xids, self.last_xid = old.xids, old.last_xid
        self.implausible = self._plausible.left_out = old.implausible
        old.refresh()
        with old._lock:
            old._take_in()
            shape = (self.device.metrics, self._ring.capacity, self._windows.length)
            if shape == (old.device.metrics, old._ring.capacity, old._windows.length):
                self._ring, self._windows, self._dropped_before = old._ring, old._windows, old._dropped_before
                return
            self._dropped_before = old._dropped_before + old._ring.dropped
            self._windows.inherit(old._windows)
        time, columns = old._ring.read()
        nothing = np.full(len(time), np.nan)
        rows = np.column_stack([columns.get(metric.name, nothing) for metric in self.device.metrics])
        if len(time):
            self._ring.extend(time, rows)

    @property
    def dropped(self) -> int:
        """Rows that gave way because the clock was set back to before their time."""
        return self._dropped_before + self._ring.dropped

    @property
    def set_back_to(self) -> float | None:
        """Time of the first row after the clock was last set back (unix seconds); see `Ring`."""
        return self._ring.set_back_to

    @property
    def oldest(self) -> float | None:
        """Time of the oldest row held (unix seconds)."""
        return self._complete().oldest

    @property
    def heard_at(self) -> float:
        """Moment of the monotonic clock at which its newest row arrived, -inf before the first."""
        self.refresh()
        return self._heard_at


def nothing_new() -> None:
    """Be the `DeviceStore.refresh` of a store that no sampler fills."""
