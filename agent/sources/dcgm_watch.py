"""What the host engine samples for us, and the ticks that its values are put into."""

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dcgm_engine import Entity, HostEngine
from .dcgm_values import Readings

log = logging.getLogger(__name__)

TICK_US = 100_000
INTERVAL_US = {"fast": TICK_US, "slow": 1_000_000, "rare": 60_000_000}
# How long the engine keeps what nobody has fetched yet (seconds).
KEEP_S = 30.0
# A round of the engine over all fields of all GPUs takes less than this.
ROUND_US = 1_000_000

_names = count(1)


def _name() -> str:
    # Reusing the name of a live group of fields is an error, whoever made it.
    return f"epochcast-{os.getpid()}-{next(_names)}"


def _end(engine: HostEngine, step: Callable[[], None]) -> None:
    """Take back what the engine was asked for; where the engine is gone, it is gone too."""
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
    """Some fields of a group, sampled by the host engine at one interval.

    ``since``: time (µs) from which values are to be fetched. ``horizon``: time up to which the last fetch saw all.
    """

    def __init__(self, group: WatchGroup, fields: Sequence[int], tier: str) -> None:
        self._engine = group.engine
        self._group = group.dcgm_group
        self._field_group = self._engine.bindings.pydcgm.DcgmFieldGroup(
            self._engine.connection, name=_name(), fieldIds=list(fields)
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


class Ticks:
    """Values [devices, metrics] by tick (number of 0.1 s since 1970), until a tick is complete."""

    def __init__(self, devices: int, metrics: int) -> None:
        self._shape = devices, metrics
        self._open: dict[int, tuple[NDArray[np.float64], NDArray[np.bool_]]] = {}
        self._started = np.zeros(self._shape, dtype=bool)
        self.last = 0  # the newest tick that was handed out, or passed without values

    def place(
        self,
        ts: NDArray[np.int64],
        devices: NDArray[np.int64],
        metrics: NDArray[np.int16],
        values: NDArray[np.float64],
        blank: NDArray[np.bool_],
    ) -> None:
        """Put values, each with its time (µs), device and metric, into their nearest ticks; the last of several stays."""
        ticks = (ts + TICK_US // 2) // TICK_US
        new = ticks > self.last
        numbers, places = np.unique(ticks[new], return_inverse=True)
        fresh = np.full((len(numbers), *self._shape), math.nan)
        fresh[places, devices[new], metrics[new]] = np.where(blank, math.nan, values)[new]
        blanks = np.zeros(fresh.shape, dtype=bool)
        blanks[places, devices[new], metrics[new]] = blank[new]
        for i, tick in enumerate(numbers.tolist()):
            kept, before = self._open.get(tick, (fresh[i], blanks[i]))
            self._open[tick] = np.where(np.isnan(fresh[i]), kept, fresh[i]), blanks[i] | before

    def take(self, up_to: int) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.bool_]]]:
        """Yield (tick, values, lost) of the ticks up to ``up_to`` in order; ``lost``: read, but blank.

        The first profiling value after a watch has begun is always blank; nothing was lost with it.
        """
        for tick in sorted(tick for tick in self._open if tick <= up_to):
            values, blank = self._open.pop(tick)
            given = ~np.isnan(values)
            lost = blank & ~given & self._started
            self._started |= blank | given
            yield tick, values, lost
        self.last = up_to

    def restart(self, at: int) -> None:
        """Forget what is open and go on after tick ``at``: the engine's clock was set back, or its watches are new."""
        self._open.clear()
        self._started[:] = False
        self.last = at
