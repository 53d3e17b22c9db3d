"""The host engine behind the stand-in bindings: its clock moves only when a test moves it, and it fails when told to.

With $FAKE_DCGM_LIVE set its clock is the machine's, for an agent in a process of its own.

It does what the true one does where a client can tell: samples each watched field at its interval, stamps each with a time of
its own, keeps values by age, loses everything when it restarts, and starts profiling with one blank.
"""

import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import dcgm_fields
import dcgm_structs as structs

INT64_BLANK = 0x7FFFFFFFFFFFFFF0
FP64_BLANK = 140737488355328.0
NOT_SUPPORTED = 2
XID_ERROR = 230
FE_GPU, FE_GPU_I, FE_GPU_CI = dcgm_fields.DCGM_FE_GPU, dcgm_fields.DCGM_FE_GPU_I, 5
PROFILING = range(1001, 1100)
STORE_DELAY_US = 20_000
LIVE = bool(os.environ.get("FAKE_DCGM_LIVE"))
# Values that never change, by field; the rest follow from `HostEngine.value`.
FACTS: dict[int, Any] = {112: 0, 63: 8 << 16, 90: 131072, 113: 1410, 114: 1593, 159: 92, 164: 400.0, 238: 16, 250: 81920}


@dataclass
class Watch:
    group: int
    fields: int
    interval: int
    keep_age: float
    due: int


@dataclass
class HostEngine:
    gpus: dict[int, str] = field(default_factory=lambda: {0: "GPU-aaaa", 1: "GPU-bbbb"})
    instances: dict[int, tuple[int, int, str]] = field(default_factory=dict)  # entity → (GPU, NVML's instance id, profile)
    now: int = field(default_factory=lambda: int(time.time() * 1e6) if LIVE else 1_700_000_000_000_000)  # µs
    running: bool = True
    library: bool = True
    profiling_error: int | None = None  # dcgm_structs.DCGM_ST_…
    profiling_fields: tuple[int, ...] = tuple(range(1001, 1013))
    unknown_fields: frozenset[int] = frozenset()
    generation: int = 0
    jitter: int = 0  # µs by which the stamps of a round are off at most, either way

    def __post_init__(self) -> None:
        self.connections: list[int] = []  # one generation per open connection
        self.most_connections = 0
        self.where: dict[str, Any] = {}
        self.random = random.Random(1)
        self.overrides: dict[tuple[int, int], Any] = {}  # (entity, field) → value; an Exception is a status
        self.xids: dict[int, list[int]] = defaultdict(list)  # GPU → errors that the driver is about to report
        self._forget()

    def _forget(self) -> None:
        self.groups: dict[int, list[tuple[int, int]]] = {}
        self.group_types: dict[int, int] = {}
        self.field_groups: dict[int, tuple[str, list[int]]] = {}
        self.watches: list[Watch] = []
        self.cache: dict[tuple[int, int, int], list[tuple[int, int, Any]]] = defaultdict(list)

    # What a test does to it.

    def restart(self) -> None:
        """Stop and come back: connections, groups, watches and values are gone."""
        self.stop()
        self.running = True

    def stop(self) -> None:
        self.running = False
        self.generation += 1
        self._forget()

    def advance(self, seconds: float) -> None:
        """Let time pass, 10 ms at a time."""
        for _ in range(round(seconds * 100)):
            self.now += 10_000
            if self.running:
                self._sample()

    def value(self, group: int, entity: int, number: int, ts: int) -> Any:
        """What the hardware says: doubles as 0.001 x entity + field + tenths of seconds, energy growing, the rest whole."""
        if (entity, number) in self.overrides:
            return self.overrides[entity, number]
        if number in FACTS:
            return FACTS[number]
        if number == 50:
            return self.instances[entity][2] if group == FE_GPU_I else "NVIDIA A100"
        if number == 52:
            return len(self.gpus) - 1 - entity  # NVML counts the other way round
        if number in PROFILING or number in (155, 157):
            return ((ts // 100_000 % 1000) / 1000 + entity) / 16  # of sixteen entities at most, a share
        if number in (240, 241, 243, 245):
            return (ts - 1_700_000_000_000_000) * (250 if number == 240 else 0)  # ns: a quarter of the time
        return ts // 1000 % 1_000_000 if number == 156 else 40 + entity

    # What the bindings call.

    def check(self, handle: int) -> None:
        if LIVE:
            self.advance(max(0.0, time.time() - self.now / 1e6))
        if not self.running or handle != self.generation:
            raise structs.DCGMError(structs.DCGM_ST_CONNECTION_NOT_VALID)

    def connect(self) -> int:
        if not self.running:
            raise structs.DCGMError(structs.DCGM_ST_CONNECTION_NOT_VALID)
        self.connections.append(self.generation)
        self.most_connections = max(self.most_connections, self.connections.count(self.generation))
        return self.generation

    def entities(self, kind: int) -> list[tuple[int, int]]:
        gpus, instances = [(FE_GPU, gpu) for gpu in self.gpus], [(FE_GPU_I, instance) for instance in self.instances]
        return {structs.DCGM_GROUP_DEFAULT: gpus, structs.DCGM_GROUP_DEFAULT_INSTANCES: instances}.get(kind, [])

    def watch(self, group: int, fields: int, interval: int, keep_age: float) -> None:
        ids = self.field_groups[fields][1]
        if self.profiling_error is not None and any(number in PROFILING for number in ids):
            raise structs.DCGMError(self.profiling_error)  # the group is refused as a whole
        self.watches.append(Watch(group, fields, interval, keep_age, self.now))

    def update(self) -> None:
        """What UpdateAllFields(True) does: sample what is due and wait for it."""
        self._sample()
        self.now += STORE_DELAY_US

    def kept(self, group: int, fields: int, since: int, until: int) -> list[tuple[int, int, Any]]:
        """(entity group, entity, field value) in the order in which the true engine answers: by entity, field, time."""
        answer = []
        for owner in self.groups[group]:
            for number in self.field_groups[fields][1]:
                values = [item for item in self.cache[*owner, number] if since <= item[0] <= until]
                for ts, status, value in values or [(0, structs.DCGM_ST_NO_DATA, None)]:
                    answer.append((*owner, structs.fill(number, ts, status, value)))
        return answer

    def _sample(self) -> None:
        for watch in self.watches:
            if self.now < watch.due:
                continue
            watch.due += watch.interval
            began = self.now + self.random.randint(-self.jitter, self.jitter)
            for place, owner in enumerate(self.groups[watch.group]):
                for offset, number in enumerate(self.field_groups[watch.fields][1]):
                    if number == XID_ERROR and (owner[0] != FE_GPU or not self.xids[owner[1]]):
                        continue  # stored when the driver reports one, by a thread of its own
                    # One field after the other: no two share a time.
                    ts = began + 1000 * place + 100 * offset
                    value, status = self.value(*owner, number, ts), structs.DCGM_ST_OK
                    if number == XID_ERROR:
                        value = self.xids[owner[1]].pop(0)
                    if isinstance(value, structs.DCGMError):
                        value, status = None, value.value
                    values = self.cache[*owner, number]
                    if number in PROFILING and not values:
                        value = FP64_BLANK
                    values.append((ts, status, value))
                    while values[0][0] < ts - max(watch.keep_age, 1.0) * 1e6:
                        del values[0]


engine = HostEngine()


def reset(**changes: Any) -> HostEngine:
    """A new host engine, as nobody had ever connected to."""
    engine.__init__(**changes)  # type: ignore[misc]
    return engine
