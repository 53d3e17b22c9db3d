"""What is reported of a GPU while its job runs: who it is, its epochs, its profile; the same on a node and in the service.

JSON under schema ``epochcast.gpu-report/v2``. What leaves a node is this, and never a sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, get_args

from epochcast.analyzer.errors import InputError
from epochcast.detector import Cycle, Detection, Epoch, JobEpochs, Reason, Unit, unit_of
from epochcast.regressor.profile import Profile
from epochcast.regressor.profile_json import profile_json, read_profile

SCHEMA = "epochcast.gpu-report/v2"

State = Literal["idle", "searching", "answered"]
Verdict = Literal["epochs", "steps", "none"]


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

    uuid: str
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

    start: float
    end: float
    confidence: float
    job_since: float
    profile: Profile | None = None

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
        verdict: what was found; ``none`` as long as nothing was.
        period_s: seconds of one epoch or step; None with verdict ``none``.
        confidence: 0..1, that the period is right; 0 with verdict ``none``.
        job_since: unix seconds since when the GPU works without a long pause; None before any work.
        epochs_seen: epochs that ever ended on this GPU while it was watched, over restarts; a counter.
        epochs: the newest of the present job, oldest first, at most `MOST_EPOCHS`, without their profiles. While ``confidence``
            is below 0.8 none is reported, nor counted.
        cycles: what the present job does again and again, from short to long; that of ``period_s`` among them.
        second_period_s: of a second job on the GPU, whose cycle drifts against that of ``period_s``; None where none shows.
        profile: of the present job: over its epochs; over its work where steps or neither were found; None before a minute
            of work.
        owners: processes on the GPU; empty where the agent does not look for them.
        last_sample: unix seconds of the newest sample; None before the first.
        samples: ticks taken in, a counter of this run.
        dropped: of these, ignored as out of order.
        hertz: samples per second of the source.
        reason: with verdict ``none``, why; None where that is not known yet.
    """

    device: GpuDevice
    state: State
    verdict: Verdict
    period_s: float | None
    confidence: float
    job_since: float | None
    epochs_seen: int
    epochs: tuple[EpochRecord, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    second_period_s: float | None = None
    profile: Profile | None = None
    owners: tuple[Owner, ...] = ()
    last_sample: float | None = None
    samples: int = 0
    dropped: int = 0
    hertz: float = 10.0
    reason: Reason | None = None

    @staticmethod
    def of_detection(detection: Detection | None) -> dict[str, Any]:
        """What fields of a report say of what was found; None: nothing yet."""
        if detection is None:
            return {"verdict": "none", "period_s": None, "confidence": 0.0}
        return {
            "verdict": detection.verdict,
            "period_s": detection.period_s,
            "confidence": 0.0 if detection.verdict == "none" else min(max(float(detection.confidence), 0.0), 1.0),
            "cycles": detection.cycles,
            "second_period_s": detection.jobs[1].period_s if len(detection.jobs) > 1 else None,
            "reason": detection.reason,
        }

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

    @property
    def unit(self) -> Unit | None:
        """What ``period_s`` is of; None with verdict ``none``."""
        return unit_of(self.verdict, self.period_s, self.cycles)

    @property
    def detection(self) -> Detection:
        """What was found, as the detector says it of a trace; of the epochs those that the report carries."""
        epochs = tuple(Epoch(epoch.start, epoch.end, epoch.confidence) for epoch in self.epochs)
        periods = [period for period in (self.period_s, self.second_period_s) if period is not None]
        return Detection(
            verdict=self.verdict,
            period_s=self.period_s,
            period_work=None,
            epochs=epochs,
            confidence=self.confidence,
            method="track",
            clock="wall",
            step_s=self.period_s if self.verdict == "steps" else None,
            jobs=tuple(JobEpochs(period, (), self.confidence) for period in periods),
            reason=self.reason,
            cycles=self.cycles,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values under `SCHEMA`."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return (
            {"schema": SCHEMA}
            | plain
            | {
                "device": asdict(self.device) | {"static": dict(self.device.static)},
                "epochs": [epoch_to_json(epoch) for epoch in self.epochs],
                "cycles": [asdict(cycle) for cycle in self.cycles],
                "profile": None if self.profile is None else profile_json(self.profile),
                "owners": [asdict(owner) for owner in self.owners],
            }
        )

    @classmethod
    def from_json(cls, data: object) -> Report:
        """Check what `to_json` gave and build the report again.

        Raises:
            InputError: another schema, a key that is missing or unknown, a value that no report can hold.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            seen = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise InputError(f"a report of a GPU has schema {seen!r}; this version reads {SCHEMA!r}: upgrade node and service")
        values = {key: value for key, value in data.items() if key != "schema"}
        try:
            values["device"] = _device_from_json(values["device"])
            values["epochs"] = tuple(epoch_from_json(epoch) for epoch in values["epochs"])
            values["cycles"] = tuple(Cycle(**cycle | {"k_open": tuple(cycle["k_open"])}) for cycle in values["cycles"])
            values["profile"] = None if values["profile"] is None else read_profile(values["profile"])
            values["owners"] = tuple(Owner(**owner) for owner in values["owners"])
            report = cls(**values)
            moments = (report.job_since, report.last_sample, report.confidence)
            sound = all(value is None or math.isfinite(value) for value in moments) and 0 < report.hertz < math.inf
            periods = (report.period_s, report.second_period_s)
            sound = sound and all(period is None or 0 < period < math.inf for period in periods)
            sound = sound and all(isinstance(n, int) and n >= 0 for n in (report.epochs_seen, report.samples, report.dropped))
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(f"a report of a GPU is incomplete: {error}; upgrade node and service to one version") from error
        if not sound or report.state not in get_args(State) or report.verdict not in get_args(Verdict):
            raise InputError(f"the report of GPU {report.device.uuid!r} holds an impossible value; query its node again")
        return report


MOST_EPOCHS = 100
"""Epochs that a report carries; the store of the detecting process has them all."""


def epoch_to_json(epoch: EpochRecord) -> dict[str, Any]:
    """Return an epoch as JSON values."""
    return vars(epoch) | {"profile": None if epoch.profile is None else profile_json(epoch.profile)}


def epoch_from_json(data: Mapping[str, Any]) -> EpochRecord:
    """Build an epoch of JSON values; TypeError or InputError where they are none."""
    profile = data.get("profile")
    epoch = EpochRecord(**{**data, "profile": None if profile is None else read_profile(profile)})
    if not (all(map(math.isfinite, (epoch.start, epoch.end, epoch.confidence, epoch.job_since))) and epoch.start < epoch.end):
        raise InputError(f"an epoch from {epoch.start} to {epoch.end} is impossible; query its node again")
    return epoch


def _device_from_json(data: Mapping[str, Any]) -> GpuDevice:
    """Build a device of JSON values; TypeError where they are none."""
    device = GpuDevice(**data)
    texts = {name: value for name, value in asdict(device).items() if name not in ("static", "simulated")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} of its device is {value!r:.60}, which is no text")
    if not device.uuid or not isinstance(device.static, Mapping) or not isinstance(device.simulated, bool):
        raise TypeError(f"its device {device.uuid!r:.60} is incomplete")
    return device
