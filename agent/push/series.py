"""What of one device has been queued, and what is new."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.exposition import LABELS, unique_names
from epochcast.agent.push.wire import Wire
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore

# Rows that lie further back than this (milliseconds) of what was queued: the clock had been wrong, and is right now.
CLOCK_RESET_MS = 600_000


class SeriesBlock(NamedTuple):
    """Rows of one device.

    ``times``: int64 [n], unix milliseconds, increasing. ``labels``: those of each series, serialised. ``values``: float64
    [series, n], NaN where there is none.
    """

    times: NDArray[np.int64]
    labels: Sequence[bytes]
    values: NDArray[np.float64]

    @property
    def samples(self) -> int:
        """How many values there are."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def rows(self, chosen: slice | NDArray[np.bool_]) -> SeriesBlock:
        """Return some of the rows."""
        return SeriesBlock(self.times[chosen], self.labels, self.values[:, chosen])


class DeviceSeries:
    """The series of one device, across the stores that hold its rows one after the other.

    ``newest``: time of the newest sample queued (unix milliseconds), None before the first. ``live``: serialised labels of
    the series that have a sample and no end. ``heard_at``: moment of the monotonic clock at which rows were last found.
    ``lost_rows``: overwritten before they were read. ``late_samples``: left out because the store would refuse them: not
    newer than what was queued before.
    """

    def __init__(self, wire: Wire, labels: Mapping[str, str], quantise: bool) -> None:
        self.newest: int | None = None
        self.live = set[bytes]()
        self.heard_at = -math.inf
        self.lost_rows = 0
        self.late_samples = 0
        self._wire = wire
        self._common = labels
        self._quantise = quantise
        self._store: DeviceStore | None = None
        self._cursor = 0
        self._labels: Sequence[bytes] = ()

    @property
    def current(self) -> set[bytes]:
        """Serialised labels of the series that the device has now."""
        return set(self._labels)

    def take_over(self, old: DeviceSeries) -> None:
        """Go on after what another pusher has queued of the same device."""
        self.newest, self.heard_at = old.newest, old.heard_at
        self.lost_rows, self.late_samples = old.lost_rows, old.late_samples

    def news(self, store: DeviceStore | None) -> Iterator[SeriesBlock]:
        """Yield the rows that are new, in order; None: the device has left, read what its store still held."""
        if self._store is not None:
            yield from self._read(self._store)
        if store is not self._store:
            self._store, self._cursor = store, 0
            if store is not None:
                self._labels = self._label(store.device)
                yield from self._read(store)

    def _read(self, store: DeviceStore) -> Iterator[SeriesBlock]:
        # A store that is new here may hold rows of the one before, under row numbers of its own: only times tell them apart.
        first_read = self._cursor == 0
        self._cursor, lost, time, columns = store.since(self._cursor)
        if not first_read:
            self.lost_rows += lost
        if not len(time):
            return
        self.heard_at = monotonic()
        times = np.rint(time * 1000).astype(np.int64)
        if self.newest is not None and times[-1] < self.newest - CLOCK_RESET_MS:
            self.newest = None
        # One matrix: two hundred columns of twenty values each would cost more one by one than their encoding.
        values = np.array([columns[metric.name] for metric in store.device.metrics], dtype=np.float64)
        if self._quantise:
            ratios = [metric.unit == "ratio" for metric in store.device.metrics]
            values[ratios] = np.rint(values[ratios] * 1024) / 1024
        block = SeriesBlock(times, self._labels, values)
        # Two rows may share a millisecond: no store takes two samples of one time.
        repeated = np.diff(times, prepend=times[0] - 1) <= 0
        known = np.full(len(times), False) if self.newest is None else times <= self.newest
        late = repeated & ~known if first_read else repeated | known
        if late.any():
            self.late_samples += block.rows(late).samples
        fresh = block.rows(~(repeated | known))
        if len(fresh.times):
            self.newest = int(fresh.times[-1])
            measured = np.count_nonzero(~np.isnan(fresh.values), axis=1)
            self.live.update(compress(self._labels, measured))
            yield fresh

    def _label(self, device: Device) -> Sequence[bytes]:
        labels = {**self._common, **dict(zip(LABELS, (device.label, device.uuid, device.name), strict=True))}
        if device.simulated:  # on a scraped page epochcast_gpu_info shows it; here nothing else would
            labels["simulated"] = "true"
        names = {metric: name + "_total" * (metric.kind == "counter") for metric, name in unique_names(device.metrics)}
        return [self._wire.labels({**labels, "__name__": names[metric]}) for metric in device.metrics]
