"""NVIDIA GPUs through DCGM: profiling metrics before Hopper too, sampled by its host engine and drained once a second.

The host engine reads each field at 10 Hz, once a second or once a minute (by tier) and keeps the values; this source fetches
what is new and gives it DCGM's own times. Where the engine's manners matter they are noted, as of DCGM 3.3 and 4.0 to 4.6.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.config import Config
from epochcast.agent.plausible import share_of_time
from epochcast.agent.sources import Device, Row, Source, Tick
from epochcast.agent.sources.dcgm_engine import Entity, HostEngine, connect
from epochcast.agent.sources.dcgm_values import (
    INSTANCE_FIELDS,
    INSTEAD,
    NANO,
    PROFILING_FIELDS,
    REASONS,
    TIME_FIELDS,
    XID_FIELD,
    Readings,
    blank_reasons,
    field_number,
    numbers,
)
from epochcast.agent.sources.dcgm_watch import RowMaker, Samples, Watch, WatchGroup
from epochcast.common.errors import InputError
from epochcast.dcgm_names import NAMES, OLDEST

log = logging.getLogger(__name__)

# The engine stamps the fields of one round one after the other and stores them after that: a row stays open this long.
HOLD_US = 200_000
# An engine whose newest sample is this much older than before had its clock set.
CLOCK_STEP_US = 2_000_000
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0


class DcgmSource(Source):
    """All GPUs and MIG instances that DCGM shows.

    A lost connection fails the read and is retried after 1, 2, 4 … 60 s. A host engine that does not answer then holds up the
    thread that reads, which is no other source's, for up to three seconds.
    """

    name = "dcgm"
    hertz = 1.0
    rows_per_interval = 2  # the engine's profiling module has a clock of its own
    lag = 2.0
    silent_after = 5.0

    def __init__(self, config: Config, only: frozenset[str] | None = None) -> None:
        self._config = config
        self._only = only
        self.blanks: Counter[tuple[int, str]] = Counter()
        self._wanted = [metric for metric in config.metrics().values() if metric.scope == "gpu"]
        self._reported: list[tuple[int, int]] = []
        # By device: time (µs) of the newest Xid error. By device and counter of time: time and value of the newest reading.
        self._newest_xid = Counter[int]()
        self._counted: dict[tuple[int, int], tuple[float, float]] = {}
        self._groups: dict[tuple[Entity, ...], WatchGroup] = {}
        self._watches: list[Watch] = []
        self._retry_at = 0.0
        self._retry_after = FIRST_RETRY_S
        engine = connect(config.dcgm)
        self._engine: HostEngine | None = engine
        try:
            self._everything = engine.entities()
            entities = self._chosen(self._everything)
            self._plan_columns(engine, entities)
            self._rows = RowMaker(len(entities), len(self._metrics))
            unmeasured = self._watch(engine, entities)
            self.devices = tuple(self._device(engine, *each) for each in zip(entities, unmeasured, strict=True))
        except engine.error as error:
            self.close()
            raise InputError(
                f"the DCGM host engine does not let the agent watch its GPUs ({error}); see its log, or choose another source"
            ) from error
        except BaseException:
            self.close()
            raise
        self._names = [metric.name for metric in self._metrics.values()]
        self._measured = np.array([[name not in device.unmeasured for name in self._names] for device in self.devices])
        self._columns = [np.flatnonzero(measured) for measured in self._measured]

    def _plan_columns(self, engine: HostEngine, entities: Sequence[Entity]) -> None:
        """Find the field of each metric, and what becomes of its values."""
        live = engine.live_values(entities, [*INSTEAD])
        absent = [field for field in INSTEAD if not any(field in values for values in live.values())]
        known = {metric.name: number for metric in self._wanted if (number := field_number(metric)) is not None}
        # By number of the field; their order is that of the columns.
        self._metrics = {
            INSTEAD[known[metric.name]] if known[metric.name] in absent else known[metric.name]: metric
            for metric in self._wanted
            if metric.name in known
        }
        self._scale = np.array(
            [
                NANO if number in TIME_FIELDS else NAMES[OLDEST[metric.name]][1] if metric.name in OLDEST else 1.0
                for number, metric in self._metrics.items()
            ]
        )
        self._column = np.full(1 << 16, -1, dtype=np.int16)
        self._column[list(self._metrics)] = range(len(self._metrics))
        self._time_columns = [column for column, number in enumerate(self._metrics) if number in TIME_FIELDS]

    def _chosen(self, everything: Sequence[Entity]) -> list[Entity]:
        if not everything:
            raise InputError("source 'dcgm' finds no GPU that DCGM supports (nv-hostengine sees none); choose another source")
        chosen = [entity for entity in everything if self._only is None or entity.uuid in self._only]
        if not chosen:
            known = ", ".join(entity.uuid for entity in everything)
            raise InputError(f"source 'dcgm' sees none of the GPUs to read; it sees {known}")
        return chosen

    def _device(self, engine: HostEngine, entity: Entity, unmeasured: dict[str, str]) -> Device:
        return Device(
            index=entity.nvml_index,
            uuid=entity.uuid,
            name=entity.name,
            source=self.name,
            metrics=tuple(metric for metric in self._metrics.values() if metric.name not in unmeasured),
            instance=entity.instance,
            static=engine.static(entity),
            unmeasured=unmeasured,
        )

    def _watch(self, engine: HostEngine, entities: Sequence[Entity]) -> list[dict[str, str]]:
        """Have every field sampled on every entity that can have it; return what is unmeasured on each, and why."""
        self._readings = Readings(engine.bindings.structs, self._metrics)
        self._positions = {entity.group << 32 | entity.id: i for i, entity in enumerate(entities)}
        unmeasured: list[dict[str, str]] = [{} for _ in entities]
        profiling = {gpu: engine.profiling_fields(gpu) for gpu in {entity.gpu for entity in entities}}
        # Profiling fields by themselves: where DCGM lacks its module for them, a mixed group is refused as a whole.
        plan: dict[tuple[bool, str, tuple[int, ...]], list[int]] = defaultdict(list)
        for field, metric in self._metrics.items():
            having: dict[bool, list[int]] = {True: [], False: []}  # GPUs, instances
            for i, entity in enumerate(entities):
                supported, reason = profiling[entity.gpu]
                if entity.instance is not None and field not in INSTANCE_FIELDS:
                    unmeasured[i][metric.name] = "the whole GPU's, not this MIG instance's own"
                elif field in PROFILING_FIELDS and field not in supported:
                    unmeasured[i][metric.name] = reason
                else:
                    having[entity.instance is None].append(i)
            for kind in filter(None, having.values()):
                plan[field in PROFILING_FIELDS, metric.tier, tuple(kind)].append(field)
        if whole := tuple(i for i, entity in enumerate(entities) if entity.instance is None):
            plan[False, "slow", whole].append(XID_FIELD)
        for (_, tier, positions), fields in sorted(plan.items(), reverse=True):
            watched = [entities[i] for i in positions]
            for field, reason in self._sample(engine, watched, fields, tier).items():
                for i in positions if field in self._metrics else ():
                    unmeasured[i][self._metrics[field].name] = reason
        engine.update()
        for watch in self._watches:
            self._note_unreadable(*watch.latest(self._readings), unmeasured)
        if all(metric.name in each for each in unmeasured for metric in self._metrics.values()):
            raise InputError("source 'dcgm' can read none of the enabled metrics; choose another source")
        return unmeasured

    def _sample(self, engine: HostEngine, entities: Sequence[Entity], fields: Sequence[int], tier: str) -> dict[int, str]:
        """Start a watch; return the fields that DCGM refuses, and why: an older one does not know all of them."""
        group = self._groups.get(tuple(entities))
        if group is None:
            kind = [entity for entity in self._everything if entity.group == entities[0].group]
            group = self._groups[tuple(entities)] = WatchGroup(engine, entities, every=len(entities) == len(kind))
        refused: dict[int, str] = {}
        try:
            self._watches.append(Watch(group, fields, tier))
        except engine.error as error:
            if engine.is_gone(error):
                raise
            # It does not say which field it minds.
            for field in fields:
                try:
                    Watch(group, [field], tier).close()
                except engine.error as reason:
                    refused[field] = f"DCGM does not watch its field {field}: {reason}"
            if accepted := [field for field in fields if field not in refused]:
                self._watches.append(Watch(group, accepted, tier))
        return refused

    def _note_unreadable(self, owners: NDArray[np.int64], raw: NDArray[Any], unmeasured: Sequence[dict[str, str]]) -> None:
        """Note which metrics DCGM says, in its first values, that it can never read on a device."""
        for owner, field, reason in zip(owners.tolist(), raw["field"].tolist(), blank_reasons(raw).tolist(), strict=True):
            # The first profiling value is always blank.
            if reason in REASONS and field not in PROFILING_FIELDS and owner in self._positions and field in self._metrics:
                unmeasured[self._positions[owner]][self._metrics[field].name] = REASONS[reason]

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return the rows that are complete; raise RuntimeError while the host engine does not answer."""
        if self._engine is None:
            self._engine = self._reconnect(tick)
        try:
            if tick.rare:
                self.outdated |= self._differs(self._engine.entities())
            samples, complete = self._fetch()
        except self._engine.error as error:
            self._engine.lost = True
            self._retry_later(tick)
            raise RuntimeError(f"the DCGM host engine is gone ({error})") from error
        self._retry_after = FIRST_RETRY_S
        return self._take(samples, complete)

    def _reconnect(self, tick: Tick) -> HostEngine:
        """Return the host engine with our watches set up again; raise RuntimeError when it is not there yet."""
        if tick.elapsed < self._retry_at:
            raise RuntimeError("the DCGM host engine is gone")
        engine = None
        try:
            engine = self._engine = connect(self._config.dcgm)
            everything = engine.entities()
            if self._differs(everything):
                self.outdated = True
                raise RuntimeError("the DCGM host engine is back with other GPUs")
            self._everything = everything
            self._rows.restart(self._rows.until)
            unmeasured = self._watch(engine, self._chosen(everything))
            self.outdated |= [set(each) for each in unmeasured] != [set(device.unmeasured) for device in self.devices]
        except (RuntimeError, InputError) as error:
            self._retry_later(tick)
            raise RuntimeError(str(error)) from error
        except Exception as error:
            if engine is None or not isinstance(error, engine.error):
                raise
            engine.lost = True
            self._retry_later(tick)
            raise RuntimeError(f"the DCGM host engine does not let the agent watch its GPUs ({error})") from error
        log.warning("the DCGM host engine answers again")
        return engine

    def _differs(self, everything: Sequence[Entity]) -> bool:
        """Whether GPUs were added or lost, or MIG was set up again."""
        return [entity.uuid for entity in everything] != [entity.uuid for entity in self._everything]

    def _retry_later(self, tick: Tick) -> None:
        """Let go of the engine until the next try."""
        self.close()
        self._retry_at = tick.elapsed + self._retry_after
        self._retry_after = min(2 * self._retry_after, LONGEST_RETRY_S)

    def _fetch(self) -> tuple[Samples, int]:
        """Return the engine's samples since the last complete row, and the time (µs) up to which they are complete now."""
        horizons, parts = [], []
        for watch in self._watches:
            before = watch.horizon
            owners, raw = watch.fetch(self._readings)
            if watch.horizon != before:
                horizons.append(watch.horizon)
            devices = np.array([self._positions.get(owner, -1) for owner in owners.tolist()], dtype=np.int64)
            columns = self._column[raw["field"]]
            values, blank = numbers(raw) * self._scale[columns], blank_reasons(raw) >= 0
            xids = (raw["field"] == XID_FIELD) & ~blank & (devices >= 0)
            self._note_xids(devices[xids], raw["ts"][xids], raw["int"][xids])
            use = (devices >= 0) & (columns >= 0)
            use[use] = self._measured[devices[use], columns[use]]
            parts.append(Samples(raw["ts"], devices, columns, values, blank).at(use))
        until = self._rows.until
        complete = min(horizons) - HOLD_US if horizons else until
        if complete < until - CLOCK_STEP_US:
            log.warning("the clock of the DCGM host engine was set back by %.1f s", (until - complete) / 1e6)
            self._rows.restart(complete)
        return Samples(*map(np.concatenate, zip(*parts, strict=True))), max(complete, self._rows.until)

    def _note_xids(self, devices: NDArray[np.int64], times: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Note the new ones among samples of the field of Xid errors: DCGM stores one when the driver reports it, else none."""
        for device, time, code in sorted(zip(devices.tolist(), times.tolist(), codes.tolist(), strict=True)):
            if time > self._newest_xid[device] and code > 0:
                self._newest_xid[device] = time
                self._reported.append((device, code))

    def _take(self, samples: Samples, complete: int) -> list[Row]:
        devices, times, values, lost = self._rows.take(samples, complete)
        self.blanks.update(zip(lost.devices.tolist(), [self._names[column] for column in lost.metrics.tolist()], strict=True))
        for watch in self._watches:
            # A sample may be stamped before this fetch and stored after it.
            watch.since = self._rows.since
        self._put_shares(devices, times, values)
        given = ~np.isnan(values).all(axis=1)
        return [
            Row(device, time, row[self._columns[device]])
            for device, time, row in zip(devices[given].tolist(), times[given].tolist(), values[given], strict=True)
        ]

    def _put_shares(self, devices: NDArray[np.int64], times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Put the share of time since the reading before in the place of each counter of time; NaN where it cannot be known."""
        for column in self._time_columns:
            for row in np.flatnonzero(~np.isnan(values[:, column])).tolist():
                device, time, value = int(devices[row]), float(times[row]), float(values[row, column])
                time_before, value_before = self._counted.get((device, column), (nan, nan))
                self._counted[device, column] = time, value
                share = (value - value_before) / (time - time_before) if time > time_before else nan
                values[row, column] = share_of_time(share) if share >= 0 else nan

    def take_xids(self) -> Sequence[tuple[int, int]]:
        """Return and forget the Xid errors that DCGM received: (position of the device, code), in their order."""
        reported, self._reported = self._reported, []
        return reported

    def close(self) -> None:
        """End the watches and give the connection back."""
        for watch in self._watches:
            watch.close()
        for group in self._groups.values():
            group.close()
        self._watches, self._groups = [], {}
        if self._engine is not None:
            self._engine.release()
            self._engine = None
