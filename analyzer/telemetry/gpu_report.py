"""What is reported of a GPU while its job runs: who it is, its epochs, its profile; the same on a node and in the service.

JSON under schema ``epochcast.gpu-report/v4``. What leaves a node is this, and never a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, cast

from annotated_types import Ge, Gt, Len
from pydantic import TypeAdapter, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.detection_json import DetectionJson
from epochcast.detector import Detection
from epochcast.regressor.profile import STRICT, Profile

SCHEMA = "epochcast.gpu-report/v4"

State = Literal["idle", "searching", "answered"]
Positive = Annotated[float, Gt(0)]
Counter = Annotated[int, Ge(0)]
T = TypeVar("T")


@dataclass(frozen=True)
class GpuDevice:
    """One GPU (or MIG instance) and where it is.

    Attributes:
        uuid: unique to it.
        label: its short name on its node, ``0``, or ``0.7`` for a MIG instance.
        name: of the model, as its driver reports it.
        node: of the machine that it is in.
        source: what reads it (``gpm``, ``dcgm``, ``replay``, …).
        simulated: no hardware was read.
        static: static attributes, name -> value, as the agent reports them.
        instance, cloud, region: what is rented, where the configuration or a label says so; empty where not.
    """

    __pydantic_config__: ClassVar = STRICT

    uuid: Annotated[str, Len(1)]
    label: str
    name: str
    node: str
    source: str = ""
    simulated: bool = False
    static: Mapping[str, Any] = field(default_factory=dict)
    instance: str = ""
    cloud: str = ""
    region: str = ""

    @property
    def title(self) -> str:
        """What people call it."""
        return f"GPU {self.label} of {self.node}"


@dataclass(frozen=True)
class Owner:
    """A process on a GPU, as the agent reports it; texts that it does not report are empty."""

    __pydantic_config__: ClassVar = STRICT

    pid: int
    process: str = ""
    user: str = ""
    container: str = ""
    slurm_job: str = ""
    pod: str = ""


# What has every GPU of a node open and trains nothing (names as the kernel has them, 15 letters).
_NO_TRAINERS = ("nvidia-cuda-mps", "nv-hostengine", "dcgm", "Xorg", "Xwayland", "gnome-shell", "kwin", "nvidia-persiste")


def trainers(owners: Iterable[Owner]) -> list[Owner]:
    """Return the processes that may train; servers of the node are left out."""
    return [owner for owner in owners if not owner.process.startswith(_NO_TRAINERS)]


@dataclass(frozen=True)
class EpochRecord:
    """One epoch that has ended.

    Attributes:
        start, end: unix seconds.
        confidence: 0..1, of the detector in this epoch.
        job_since: when its job began (`Report.job_since`); distinguishes the jobs of a GPU.
        profile: of this epoch alone; None where its samples were no longer held, or were not reported.
    """

    __pydantic_config__: ClassVar = STRICT

    start: float
    end: float
    confidence: float
    job_since: float
    profile: Profile | None = None

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise InputError(f"an epoch from {self.start} to {self.end} is impossible")

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


class Pulse(NamedTuple):
    """What of a report changes with every sample, though nothing happens; see `Report`."""

    last_sample: float | None
    samples: int
    dropped: int


@dataclass(frozen=True)
class Report:
    """What is known of a GPU now.

    Attributes:
        device: which GPU.
        state: ``idle``: no work for 15 s; the report is of the job before.
        detection: what was found in the present job, without its epochs: `reported` makes it.
        job_since: unix seconds since when the GPU works without a long pause; None before any work.
        epochs_seen: epochs that ever ended on this GPU while it was watched, over restarts; a counter.
        epochs: the newest of the present job, oldest first, at most `MOST_EPOCHS`, without their profiles. While ``confidence``
            is below 0.8 none is reported, nor counted.
        profile: of the present job: over its epochs; over its work where steps or neither were found; None before a minute
            of work.
        owners: processes on the GPU; empty where the agent does not look for them.
        last_sample: unix seconds of the newest sample; None before the first.
        samples: ticks taken in, a counter of this run.
        dropped: of these, ignored as out of order.
        hertz: samples per second of the source.
    """

    __pydantic_config__: ClassVar = STRICT

    device: GpuDevice
    state: State
    detection: DetectionJson
    job_since: float | None
    epochs_seen: Counter
    epochs: tuple[EpochRecord, ...] = ()
    profile: Profile | None = None
    owners: tuple[Owner, ...] = ()
    last_sample: float | None = None
    samples: Counter = 0
    dropped: Counter = 0
    hertz: Positive = 10.0

    @property
    def pulse(self) -> Pulse:
        """Its share that changes with every sample."""
        return Pulse(self.last_sample, self.samples, self.dropped)

    def with_pulse(self, pulse: Pulse | None) -> Report:
        """Return the same with another pulse; None: its own."""
        return self if pulse in (None, self.pulse) else replace(self, **pulse._asdict())

    def is_like(self, other: Report | None) -> bool:
        """Whether another report differs in its pulse alone."""
        return other is not None and self.with_pulse(other.pulse) == other


MOST_EPOCHS = 100
"""Epochs that a report carries; the store of the detecting process has them all."""


NOTHING = Detection("none", None, None, (), 0.0, "track", "wall")
"""What is reported before anything was found."""

_REPORT, _EPOCH = TypeAdapter(Report), TypeAdapter(EpochRecord)


def report_json(report: Report) -> dict[str, Any]:
    """A report as JSON values under `SCHEMA`."""
    return {"schema": SCHEMA} | cast(dict[str, Any], _REPORT.dump_python(report, mode="json"))


def read_report(data: object) -> Report:
    """The report in what `report_json` gave.

    Raises:
        InputError: another schema, a key that is missing or unknown, a value that no report can hold.
    """
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        seen = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(f"a report of a GPU has schema {seen!r}; this version reads {SCHEMA!r}: upgrade node and service")
    return _checked(_REPORT, {key: value for key, value in data.items() if key != "schema"}, "a report of a GPU")


def epoch_json(epoch: EpochRecord) -> dict[str, Any]:
    """An epoch as JSON values."""
    return cast(dict[str, Any], _EPOCH.dump_python(epoch, mode="json"))


def read_epoch(data: object) -> EpochRecord:
    """The epoch in JSON values; raises InputError where they are none."""
    return _checked(_EPOCH, data, "an epoch of a GPU")


def _checked(adapter: TypeAdapter[T], data: object, what: str) -> T:
    try:
        return adapter.validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{what} holds {where} {first['input']!r:.60}: {first['msg']}; upgrade node and service to one version"
        ) from error
