"""What the host engine samples for us, and the rows that its samples are put into."""

import logging
import math
import os
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.sources.dcgm_engine import Entity, HostEngine
from epochcast.agent.sources.dcgm_values import Readings, watched_field

log = logging.getLogger(__name__)

INTERVAL_US = {"fast": 100_000, "slow": 1_000_000, "rare": 60_000_000}
# How long the engine keeps what nobody has fetched yet (seconds).
KEEP_S = 30.0
# Samples further apart are no row: each is to be within 5 ms of its row's time (decision 0054).
ROW_US = 10_000
# A round of the engine over all fields of all GPUs takes less than this.
ROUND_US = 1_000_000

_names = count(1)


def _name() -> str:
    # Reusing the name of a live group of fields is an error, no matter who made it.
    return f"epochcast-{os.getpid()}-{next(_names)}"


def _end(engine: HostEngine, step: Callable[[], None]) -> None:
    """End the engine's watches; if the engine is gone, they are gone too."""
    try:
        step()
    except engine.error as error:
        log.debug("ending a DCGM watch: %s", error)


class WatchGroup:
    """Some GPUs, or some MIG instances, as a group of the host engine.

    ``every``: they are all of their kind, which DCGM can group by itself.
    """

    def __init__(self, engine: HostEngine, entities: Sequence[Entity], every: bool) -> None:
        structs = engine.bindings.structs
        default = structs.DCGM_GROUP_DEFAULT if entities[0].instance is None else structs.DCGM_GROUP_DEFAULT_INSTANCES
        kind = default if every else structs.DCGM_GROUP_EMPTY
        self.engine = engine
        self.dcgm_group = engine.bindings.pydcgm.DcgmGroup(engine.connection, groupName=_name(), groupType=kind)
        for entity in () if every else entities:
            self.dcgm_group.AddEntity(entity.group, entity.id)

    def close(self) -> None:
        """Give the group back; its watches must have ended."""
        _end(self.engine, self.dcgm_group.Delete)


class Watch:
    """Some fields of a group, by `field_number`, sampled by the host engine at one interval.

    ``since``: time (µs) from which values are to be fetched. ``horizon``: time up to which the last fetch saw all.
    """

    def __init__(self, group: WatchGroup, fields: Sequence[int], tier: str) -> None:
        self._engine = group.engine
        self._group = group.dcgm_group
        self._field_group = self._engine.bindings.pydcgm.DcgmFieldGroup(
            self._engine.connection, name=_name(), fieldIds=sorted({watched_field(number) for number in fields})
        )
        self.since = self.horizon = 0
        interval = INTERVAL_US[tier]
        try:
            # Kept by age; no limit to the number of samples (0).
            self._group.samples.WatchFields(self._field_group, interval, max(KEEP_S, 2e-6 * interval), 0)
        except self._engine.error:
            # Some versions of the bindings keep every field group alive until it is deleted by name.
            _end(self._engine, self._field_group.Delete)
            raise

    def latest(self, readings: Readings) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the newest value of every field, and start fetching a second before them.

        A field may be watched for another client too, and its values then go back as far as that one asked.
        """
        try:
            self._engine.bindings.agent.dcgmGetLatestValues_v2(
                self._engine.handle, self._group.GetId(), self._field_group.fieldGroupId, readings.callback, None
            )
        except self._engine.error as error:
            if self._engine.is_gone(error):
                raise
            log.debug("DCGM has no first values: %s", error)
        owners, raw = readings.take()
        if len(raw):
            self.since = max(0, int(raw["ts"].max()) - ROUND_US)
        return owners, raw

    def fetch(self, readings: Readings) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the values from ``since`` on, as `Readings.take` does, and move the horizon."""
        following = self._engine.bindings.agent.dcgmGetValuesSince_v2(
            self._engine.handle, self._group.GetId(), self._field_group.fieldGroupId, self.since, readings.callback, None
        )
        owners, raw = readings.take()
        self.horizon = max(following - 1, int(raw["ts"].max()) if len(raw) else 0)
        return owners, raw

    def close(self) -> None:
        """End the watch."""
        _end(self._engine, lambda: self._group.samples.UnwatchFields(self._field_group))
        _end(self._engine, self._field_group.Delete)


class Samples(NamedTuple):
    """Samples of DCGM, all arrays of shape (samples,): time (µs), device, metric, value, and whether it is a blank instead."""

    ts: NDArray[np.int64]
    devices: NDArray[np.int64]
    metrics: NDArray[np.int64]
    values: NDArray[np.float64]
    blank: NDArray[np.bool_]

    def at(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> "Samples":
        """Return the samples at these places."""
        return Samples(self.ts[places], self.devices[places], self.metrics[places], self.values[places], self.blank[places])

    def in_order(self) -> "Samples":
        """Return them by device and then time, each once."""
        ordered = self.at(np.lexsort((self.metrics, self.ts, self.devices)))
        keys = np.column_stack([ordered.devices, ordered.ts, ordered.metrics])
        return ordered.at(np.append(True, (np.diff(keys, axis=0) != 0).any(axis=1))[: len(keys)])


class RowMaker:
    """Makes rows of samples: in a row is what DCGM stamped on one device within `ROW_US`, and no metric twice.

    So no sample takes the place of another, and each is within half of that of its row's time. ``until``: time (µs) up to which
    all samples are in rows. ``since``: that from which on some are not.
    """

    def __init__(self, devices: int, metrics: int) -> None:
        self._metrics = metrics
        self._started = np.zeros(devices * metrics, dtype=bool)
        self._taken = np.zeros(devices, dtype=np.int64)
        self.until = self.since = 0

    def take(self, samples: Samples, until: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], Samples]:
        """Return the rows that end by ``until`` (µs), those of a device in the order of time, and what was blank.

        Rows: devices and times (unix seconds) of shape (rows,), values (rows, metrics).
        ``samples``: all from ``since`` on, in any order. The first profiling value after a watch has begun is always blank;
        nothing was lost with it.
        """
        samples = samples.at(samples.ts > self._taken[samples.devices]).in_order()
        rows = _row_numbers(samples)
        count = int(rows.max(initial=-1)) + 1
        first, last, devices = (np.zeros(count, dtype=np.int64) for _ in range(3))
        first[rows[::-1]], last[rows], devices[rows] = samples.ts[::-1], samples.ts, samples.devices
        values = np.full((count, self._metrics), math.nan)
        values[rows, samples.metrics] = np.where(samples.blank, math.nan, samples.values)
        whole = last <= until
        self.until, self.since = until, int(first[~whole].min(initial=until + 1))
        np.maximum.at(self._taken, devices[whole], last[whole])
        lost = self._lost(samples.at(whole[rows]))
        return devices[whole], (first + last)[whole] / 2e6, values[whole], lost

    def _lost(self, taken: Samples) -> Samples:
        series, firsts = np.unique(taken.devices * self._metrics + taken.metrics, return_index=True)
        lost = taken.blank.copy()
        lost[firsts[~self._started[series]]] = False
        self._started[series] = True
        return taken.at(lost)

    def restart(self, at: int) -> None:
        """Go on after the time ``at`` (µs): the engine's clock was set back, or its watches are new."""
        self._started[:] = False
        self._taken[:] = self.until = self.since = at


def _row_numbers(samples: Samples) -> NDArray[np.int64]:
    """Return for each of the samples, which are in order, the number of its row."""
    numbers = []
    number, row_device, row_began, present = -1, -1, 0, set[int]()
    for ts, device, metric in zip(samples.ts.tolist(), samples.devices.tolist(), samples.metrics.tolist(), strict=True):
        if device != row_device or ts > row_began + ROW_US or metric in present:
            number, row_device, row_began, present = number + 1, device, ts, set()
        present.add(metric)
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)
