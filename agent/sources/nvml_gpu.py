"""One GPU or MIG instance as NVML sees it: which readings it answers, and since when it does not."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import TYPE_CHECKING, NamedTuple

import pynvml

from epochcast.agent.catalog import Metric
from epochcast.agent.sources.nvml_fields import FIELDS, Field, FieldValues
from epochcast.agent.sources.nvml_library import ANSWERS, LATER, DriverError, Handle, call
from epochcast.agent.sources.nvml_readings import OF_INSTANCES, READINGS, Read, Reading

if TYPE_CHECKING:
    from epochcast.agent.sources.gpm import GpmWindow

log = logging.getLogger(__name__)

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
# Each tick reads the tiers up to its level: 0 the fast one alone, 2 all.
LEVELS: dict[str, int] = {"fast": 0, "slow": 1, "rare": 2}
ALL_TIERS = 2


@dataclass(frozen=True)
class NvmlDevice:
    """A GPU or MIG instance that answers; ``parent`` is the GPU's own handle, ``instance`` the GPU instance id."""

    index: int
    uuid: str
    parent_uuid: str
    handle: Handle
    parent: Handle
    instance: int | None = None

    @property
    def label(self) -> str:
        """Short name, as `Device.label`."""
        return str(self.index) if self.instance is None else f"{self.index}.{self.instance}"

    def again(self) -> "NvmlDevice":
        """Return it with handles of the present driver; raises DriverError when it does not answer."""
        parent = call(pynvml.nvmlDeviceGetHandleByUUID, self.parent_uuid)
        handle = parent if self.instance is None else call(pynvml.nvmlDeviceGetHandleByUUID, self.uuid)
        return NvmlDevice(self.index, self.uuid, self.parent_uuid, handle, parent, self.instance)


def find() -> Iterator[NvmlDevice]:
    """Find what answers now: each GPU, followed by its MIG instances; raises DriverError when the driver itself does not."""
    for index in range(call(pynvml.nvmlDeviceGetCount)):
        try:
            handle = call(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = call(pynvml.nvmlDeviceGetUUID, handle)
            yield NvmlDevice(index, uuid, uuid, handle, handle)
            yield from _instances(index, uuid, handle)
        except DriverError as error:
            log.debug("GPU %d does not answer: %s", index, error)


def _instances(index: int, uuid: str, handle: Handle) -> Iterator[NvmlDevice]:
    try:
        partitioned = call(pynvml.nvmlDeviceGetMigMode, handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except DriverError:
        return
    seen = set()
    for position in range(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) if partitioned else 0):
        try:
            mig = call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, position)
        except DriverError as error:
            if error.code not in ANSWERS:
                raise
            continue  # nothing in this place
        instance = call(pynvml.nvmlDeviceGetGpuInstanceId, mig)
        # NVML shows each compute instance; memory and counters belong to the GPU instance that they share.
        if instance not in seen:
            seen.add(instance)
            yield NvmlDevice(index, call(pynvml.nvmlDeviceGetUUID, mig), uuid, mig, handle, instance)


class Call(NamedTuple):
    """One call to the driver, and where its values go in the flat list of all values of the source.

    ``level``: of the fastest of its metrics; it is made at ticks of this level and above. ``profiled``: it is the profiler's.
    ``places``: (place in what it returns, place in the list) of each value that is wanted; ``span`` says the same in one slice
    where that is possible.
    """

    gpu: "NvmlGpu"
    read: Read
    places: tuple[tuple[int, int], ...]
    span: slice | None
    level: int
    profiled: bool


class NvmlGpu:
    """One device: what is read of it while it answers; tried again after 1, 2, 4 … 60 s while it does not.

    ``metrics``: what is read of it, among ``wanted``, in this order. ``unmeasured``: why nothing gives the others that NVML
    knows. `place` makes ``calls``, and ``starting``: names of rates that have had no reading before. ``read_at``: moment of the
    monotonic clock at which its newest row began.
    """

    def __init__(self, device: NvmlDevice, wanted: Mapping[str, Metric], profiler: "GpmWindow | None") -> None:
        self.device = device
        self.profiler = profiler
        self.absent = False
        self.read_at = -inf
        self.retry_at = 0.0
        self._retry_after = FIRST_RETRY_S
        profiled = profiler.metrics if profiler else ()
        refused = dict(profiler.refused) if profiler else {}
        candidates = {name: metric for name, metric in wanted.items() if name not in profiled}
        if device.instance is not None:
            for name in candidates.keys() - OF_INSTANCES:
                refused.setdefault(name, "the driver measures it for the whole GPU, not for an instance")
            candidates = {name: metric for name, metric in candidates.items() if name in OF_INSTANCES}
        self._givers, reasons = _probe(device.handle, candidates)
        self.metrics = tuple(metric for name, metric in wanted.items() if name in self._givers or name in profiled)
        self.unmeasured = {name: why for name, why in (reasons | refused).items() if name not in self._givers}
        self._levels = {metric.name: LEVELS[metric.tier] for metric in self.metrics}

    def place(self, start: int) -> None:
        """Make its calls, its values being those from ``start`` on in the source's list; raises DriverError."""
        self.start = start
        self._columns = {metric.name: start + column for column, metric in enumerate(self.metrics)}
        # A rate takes two readings: nothing is lost with the first.
        self.starting = {name for name, giver in self._givers.items() if isinstance(giver, Field) and giver.counter}
        self.calls: list[Call] = []
        if self.profiler is not None:
            self._add(self.profiler.read, self.profiler.metrics, profiled=True)
        # One call a tier: a field of a slower one may take longer than all the faster ones.
        for level in LEVELS.values():
            names = [name for name in self._givers if self._levels[name] == level]
            if fields := [giver for name in names if isinstance(giver := self._givers[name], Field)]:
                self._add(FieldValues(self.device.handle, fields).read, [field.metric for field in fields])
        for reading in dict.fromkeys(giver for giver in self._givers.values() if isinstance(giver, Reading)):
            names = [name if self._givers.get(name) is reading else "" for name in reading.metrics]
            self._add(reading.bind(self.device.handle), names)

    def _add(self, read: Read, names: Sequence[str], *, profiled: bool = False) -> None:
        """Have ``read`` called wherever one of the metrics that it returns is due; "" marks one that is not wanted."""
        places = tuple((place, self._columns[name]) for place, name in enumerate(names) if name)
        if places:
            first = places[0][1]
            whole = places == tuple((place, first + place) for place in range(len(names)))
            span = slice(first, first + len(names)) if whole else None
            level = min(self._levels[name] for name in names if name)
            self.calls.append(Call(self, read, places, span, level, profiled))

    def judge(self, level: int, errors: Sequence[DriverError]) -> DriverError | None:
        """Return which of the errors of its calls of this level shows that it does not answer, None if it does."""
        serious = [error for error in errors if error.code not in ANSWERS]
        # A GPU that says why it has no value is there; one that says "Unknown Error" to everything is not.
        all_failed = len(errors) == sum(call.level <= level for call in self.calls)
        return serious[0] if serious and all_failed else None

    def lose(self, elapsed: float, error: DriverError) -> None:
        """Take it for absent from now (``elapsed`` as in `Tick`) on."""
        if self._retry_after == FIRST_RETRY_S:
            log.warning("GPU %s (%s) does not answer: %s", self.device.label, self.device.uuid, error)
        self.absent = True
        self.retry_at = elapsed + self._retry_after
        self._retry_after = min(2 * self._retry_after, LONGEST_RETRY_S)

    def find_again(self, elapsed: float) -> None:
        """Try whether it answers again."""
        try:
            self.device = self.device.again()
            if self.profiler is not None:
                self.profiler.attach(self.device)
            # It is another GPU to its counters and buffers: all calls are made again.
            self.place(self.start)
        except DriverError as error:
            self.lose(elapsed, error)
        else:
            self.absent = False

    def confirm(self) -> None:
        """Take note that it answered after it was found again."""
        log.warning("GPU %s (%s) answers again", self.device.label, self.device.uuid)
        self._retry_after = FIRST_RETRY_S


def _probe(handle: Handle, wanted: Mapping[str, Metric]) -> tuple[dict[str, Field | Reading], dict[str, str]]:
    """Try everything once; return by metric what gives it, or why nothing does.

    Raises DriverError when the GPU does not answer.
    """
    givers: dict[str, Field | Reading] = {}
    later: dict[str, Field | Reading] = {}
    refused: dict[str, DriverError] = {}
    for names, giver, refusal in _offers(handle, wanted):
        for name in names:
            if refusal is None:
                givers.setdefault(name, giver)
            else:
                refused[name] = refusal
                if refusal.code in LATER:
                    later.setdefault(name, giver)
    serious = [refusal for refusal in refused.values() if refusal.code not in ANSWERS]
    for refusal in serious:
        if refusal.gone or not (givers or later):
            raise refusal
    givers = later | givers
    return givers, {name: str(refusal) for name, refusal in refused.items() if name not in givers}


def _offers(handle: Handle, wanted: Mapping[str, Metric]) -> Iterator[tuple[list[str], Field | Reading, DriverError | None]]:
    """Try each field and reading that serves; yield the metrics it serves, and the error if it fails."""
    fields = [field for field in FIELDS if field.metric in wanted]
    if fields:
        try:
            refusals = FieldValues(handle, fields).refusals()
        except DriverError as error:
            refusals = [error] * len(fields)
        for field, refusal in zip(fields, refusals, strict=True):
            yield [field.metric], field, refusal
    for reading in READINGS:
        names = [name for name in reading.metrics if name in wanted]
        if not names or (not reading.fast and any(wanted[name].tier == "fast" for name in names)):
            continue
        try:
            got = dict(zip(reading.metrics, reading.bind(handle)(), strict=True))
        except DriverError as error:
            yield names, reading, error
            continue
        yield [name for name in names if not isnan(got[name])], reading, None
        missing = DriverError("the driver's answer does not include it", pynvml.NVML_ERROR_NOT_SUPPORTED)
        yield [name for name in names if isnan(got[name])], reading, missing
