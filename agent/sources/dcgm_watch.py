"""What the host engine samples for us, and the ticks that its values are put into."""

import logging
import math
import os
import time
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


class Watch:
    """Some fields of some entities of one kind, sampled by the host engine at one interval.

    ``since``: time (µs) from which values are to be fetched. ``horizon``: time up to which the last fetch saw all.
    """

    def __init__(
        self, engine: HostEngine, entities: Sequence[Entity], fields: Sequence[int], tier: str, *, every: bool
    ) -> None:
        """``every``: the entities are all of their kind, for which DCGM has a group of its own."""
        structs, pydcgm = engine.bindings.structs, engine.bindings.pydcgm
        default = structs.DCGM_GROUP_DEFAULT if entities[0].instance is None else structs.DCGM_GROUP_DEFAULT_INSTANCES
        # Reusing the name of a live field group is an error, whoever made it.
        name = f"epochcast-{os.getpid()}-{next(_names)}"
        self._engine = engine
        self._undo: list[Callable[[], None]] = []
        self.since = self.horizon = 0
        try:
            group = pydcgm.DcgmGroup(
                engine.connection, groupName=name, groupType=default if every else structs.DCGM_GROUP_EMPTY
            )
            self._undo.append(group.Delete)
            if not every:
                for entity in entities:
                    group.AddEntity(entity.group, entity.id)
            field_group = pydcgm.DcgmFieldGroup(engine.connection, name=name, fieldIds=list(fields))
            # Some versions of the bindings keep every field group alive until it is deleted by name.
            self._undo.append(field_group.Delete)
            interval = INTERVAL_US[tier]
            # Kept by age; no limit to the number of samples (0).
            group.samples.WatchFields(field_group, interval, max(KEEP_S, 2e-6 * interval), 0)
            self._undo.append(lambda: group.samples.UnwatchFields(field_group))
        except engine.error:
            self.close()
            raise
        self._group, self._field_group = group.GetId(), field_group.fieldGroupId

    def latest(self, readings: Readings) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the newest value of every field, and start fetching a second before them.

        A field may be watched for another client too, and its values then go back as far as that one asked.
        """
        self._engine.bindings.agent.dcgmGetLatestValues_v2(
            self._engine.handle, self._group, self._field_group, readings.callback, None
        )
        owners, raw = readings.take()
        self.since = (int(raw["ts"].max()) if len(raw) else int(time.time() * 1e6)) - ROUND_US
        return owners, raw

    def fetch(self, readings: Readings) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the values from ``since`` on, as `Readings.take` does, and move the horizon."""
        following = self._engine.bindings.agent.dcgmGetValuesSince_v2(
            self._engine.handle, self._group, self._field_group, self.since, readings.callback, None
        )
        owners, raw = readings.take()
        self.horizon = max(following - 1, int(raw["ts"].max()) if len(raw) else 0)
        return owners, raw

    def close(self) -> None:
        """End the watch; where the engine is gone, the watch is too."""
        for undo in reversed(self._undo):
            try:
                undo()
            except self._engine.error as error:
                log.debug("ending a DCGM watch: %s", error)
        self._undo = []


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
