"""GPUs and jobs that the service watches and a fleet's analysis finds: what their reports say together, and a job's plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from epochcast.analyzer.jobs.cycles import NO_STEP, Throughput, throughput
from epochcast.analyzer.jobs.detected_profile import LEAST_CONFIDENCE
from epochcast.analyzer.jobs.grouping import Group, Grouping
from epochcast.analyzer.jobs.job import GpuUse, Job, said_once, use_of
from epochcast.analyzer.jobs.predict import counted
from epochcast.analyzer.jobs.sources import Source, find_slowest, notes_on, without_seconds
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Report, State
from epochcast.analyzer.traces.detection_json import DetectionJson
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.analyzer.words import length, plain
from epochcast.detector import Cycle, Unit, elected
from epochcast.detector.confidence import ANSWERS
from epochcast.detector.epochs import Verdict
from epochcast.detector.methods.track.regimes import DIFFERENT
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.precision import tensor_cores_idle

# Of GPUs that keep pace, one whose epochs take so much longer than the others' stands out.
_STRAGGLES = 1.05

# What says most comes first.
_VERDICTS: tuple[Verdict, ...] = ("epochs", "steps", "none")

_WHY_NOTHING = {
    "searching": "no prediction yet: a profile takes a minute of work, and the length of an epoch about five epochs",
    "answered": "no prediction yet: its profile is being computed",
    "idle": "no prediction: the job ran for less than a minute",
}


@dataclass(frozen=True, kw_only=True)
class WatchedGpu:
    """A GPU, and what the detector found on it.

    Attributes:
        uuid: unique to it.
        label: short name on its node: 0, or 0.7 for a MIG instance.
        name: the name its driver reports.
        model: name in the GPU catalogue; None where the catalogue lacks it.
        node: of the machine that it is in.
        source: of its telemetry.
        simulated: no hardware was read.
        state, detection, job_since, epochs_seen, last_sample, hertz: as in its `Report`.
        job: id of the job it runs, or ran last.
        held_idle_s: seconds of the job in which memory was held and nothing ran; None where the telemetry does not show it.
    """

    uuid: str
    label: str
    name: str
    model: str | None
    node: str
    source: str
    simulated: bool
    state: State
    detection: DetectionJson
    job: str | None
    job_since: float | None
    epochs_seen: int
    last_sample: float | None
    hertz: float
    held_idle_s: float | None


class JobPlan(BaseModel):
    """What an operator knows about a job; every field is optional."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"epochs": 90, "instance": "g4dn.xlarge", "cloud": "aws", "region": "us-east-1"}]},
    )

    epochs: int | None = Field(default=None, ge=1, le=10**9, description="Epochs, cycles or steps of the whole job.")
    samples_per_step: float | None = Field(default=None, gt=0, le=1e12, description="Of all its GPUs together.")
    tokens_per_step: float | None = Field(default=None, gt=0, le=1e15, description="Of all its GPUs together.")
    instance: str | None = Field(default=None, max_length=100, description="The instance that the job runs on.")
    cloud: str | None = Field(default=None, max_length=100)
    region: str | None = Field(default=None, max_length=100)


@dataclass(frozen=True, kw_only=True)
class WatchedJob:
    """A training job: the GPUs that train together, and the answer to it.

    Attributes:
        schema: of this document.
        id: for addresses.
        title: for people: Slurm job 1234, container 3f2a…, process python (4711), GPU 3 of node-7.
        grouped_by: what showed that its GPUs belong together.
        gpus: UUIDs.
        nodes: that they are in.
        gpu_model: name in the GPU catalogue, else the driver's.
        active: it runs now.
        simulated: no hardware was read.
        since: unix seconds at which it began.
        verdict: what was found on its GPUs.
        unit: what ``epoch_s`` is the length of.
        epoch_s: seconds of one epoch, cycle or step on the slowest GPU.
        epoch_s_low, epoch_s_high: 90 % interval of it.
        confidence: 0..1, that the period is right; 0 where its GPUs contradict each other.
        epochs_seen: epochs of this job so far.
        last_epoch_end: unix seconds.
        spread: how much longer the slowest GPU's epochs take than the fastest's; 0 for one GPU.
        straggler: UUID of the slowest GPU where it stands out.
        best: the instance on which it should run, CLOUD NAME; None where nothing qualifies.
        savings_cost_ratio: share of the cost that it saves; below 0 where it costs more.
        cycles: what the job repeats, from short to long.
        throughput: None unless the plan gives the samples or tokens of a step and steps show.
        use: how well it uses its GPUs.
        tensor_cores_idle: SMs are busy in FP32 and no tensor core works; false where the telemetry does not show it.
        plan: what its operator knows.
        answer: predictions and recommendation; None while nothing can be predicted (notes say why), and in lists of jobs.
        notes: a sentence on each thing that a reader should know, besides those of the answer.
    """

    schema: Literal["epochcast.watched-job/v1"] = "epochcast.watched-job/v1"
    id: str
    title: str
    grouped_by: Grouping
    gpus: tuple[str, ...]
    nodes: tuple[str, ...]
    gpu_model: str | None
    active: bool
    simulated: bool
    since: float | None
    verdict: Verdict
    unit: Unit | None
    epoch_s: float | None
    epoch_s_low: float | None
    epoch_s_high: float | None
    confidence: float
    epochs_seen: int
    last_epoch_end: float | None
    spread: float
    straggler: str | None
    best: str | None
    savings_cost_ratio: float | None
    cycles: tuple[Cycle, ...]
    throughput: Throughput | None
    use: GpuUse
    tensor_cores_idle: bool
    plan: JobPlan
    answer: Job | None
    notes: tuple[str, ...]


_JOB = TypeAdapter(WatchedJob)


def watched_job_json(job: WatchedJob) -> bytes:
    """A job as JSON text."""
    return _JOB.dump_json(job)


def sources_of(reports: Sequence[Report], catalog: Catalog) -> tuple[list[Source], list[str]]:
    """The sources of a job's GPUs, and a sentence on each GPU that has none, or contradicts the others.

    GPUs that contradict the others are left out; where there is no majority all are without their seconds.
    """
    sources: list[Source] = []
    kept, missing = _elected(reports)
    for report in kept or reports:
        name = report.device.title
        if report.device.source == "host":
            missing.append((name, f"nothing can be predicted: it is a CPU ({report.device.name}), but predictions need a GPU"))
            continue
        try:
            if report.profile is None:
                gpu_of(report.device.name, report.device.static, catalog)
                missing.append((name, _WHY_NOTHING[report.state]))
            else:
                sources.append(_source(report, report.profile, catalog, contradicted=not kept))
        except ValueError as error:  # the InputError of any room
            missing.append((name, f"nothing can be predicted: {error}"))
    return sources, said_once(missing, len(reports))


def _source(report: Report, profile: Profile, catalog: Catalog, *, contradicted: bool) -> Source:
    """A GPU's report as a source of predictions; ValueError for a GPU that neither catalogue nor static attributes know."""
    device = report.device
    # As it was named when the profile was made; else as its driver names it.
    gpu = catalog[profile.gpu] if profile.gpu in catalog else gpu_of(device.name, device.static, catalog)
    if contradicted:
        profile = without_seconds(profile)
    notes = () if contradicted else tuple(notes_on(report.detection))
    return Source(name=device.title, profile=profile, gpu=gpu, notes=notes, detection=report.detection)


def _elected(reports: Sequence[Report]) -> tuple[list[Report], list[tuple[str, str]]]:
    """The GPUs that go with the majority of those that are sure of a cycle, and a sentence on each that does not.

    None of them where there is no majority: they contradict each other.
    """
    sure = {
        place: found.period_s
        for place, found in enumerate(report.detection for report in reports)
        if found.period_s is not None and found.verdict != "none" and found.confidence >= ANSWERS
    }
    chosen = elected(sure, DIFFERENT)
    if not sure:
        return list(reports), []
    why = (
        ", unlike the others, so it does not count" if chosen else " and the others show another cycle, so no seconds are known"
    )
    outvoted = [
        (reports[place].device.title, f"shows a cycle of {length(period)}{why}")
        for place, period in sure.items()
        if place not in chosen
    ]
    return [report for place, report in enumerate(reports) if chosen and (place in chosen or place not in sure)], outvoted


def sum_up(
    group: Group,
    reports: Sequence[Report],
    catalog: Catalog,
    *,
    sources: Sequence[Source],
    epochs_seen: int,
    silent: Iterable[str],
    plan: JobPlan,
    notes: Sequence[str],
    answer: Job | None = None,
) -> WatchedJob:
    """Return the job with its answer.

    Args:
        group: which GPUs, and why.
        reports: of these, in the group's order.
        catalog: names of GPU models.
        sources: of `sources_of`.
        epochs_seen: epochs of this job so far.
        silent: UUIDs of GPUs that are no longer reported.
        plan: what its operator says.
        notes: sentences next to the group's.
        answer: None where nothing can be predicted.
    """
    kept = _elected(reports)[0]
    majority = kept or reports
    verdict = next(candidate for candidate in _VERDICTS if any(report.detection.verdict == candidate for report in majority))
    telling = [report for report in majority if report.detection.verdict == verdict]
    paces = {report.device.uuid: report.detection.period_s for report in telling if report.detection.period_s}
    slowest = max(paces, key=lambda uuid: paces[uuid], default=None)
    busy = counted(sources)
    timed = find_slowest(busy).profile if busy else None
    models = list(dict.fromkeys(_model_or_none(report.device, catalog) or report.device.name for report in reports))
    lost = [report for report in reports if report.device.uuid in set(silent)]
    of_sources = [(source.name, note) for source in sources for note in source.notes]
    sentences = [*group.notes, *notes, *said_once(of_sources, len(reports))]
    if lost and any(report.state != "idle" for report in lost):
        sentences += said_once([(report.device.title, "its telemetry is silent") for report in lost], len(reports))
    # The cycles are those of its slowest GPU, as the seconds are.
    cycles = max((report.detection for report in telling), key=lambda each: each.period_s or 0.0).cycles
    pace = throughput(cycles, plan.samples_per_step, plan.tokens_per_step)
    if pace is None and (plan.samples_per_step or plan.tokens_per_step):
        sentences.append(NO_STEP)
    where = None if answer is None else answer.recommendation
    each = None if where is None or where.on.assumed else where.on.usd_per_gpu_hour
    best = None if where is None or where.verdict.best is None else where.verdict.best.instance
    use = use_of(sources, [report.profile for report in reports], each)
    length_of: dict[str, Any] = {
        name: getattr(timed, name, None) for name in ("unit", "epoch_s", "epoch_s_low", "epoch_s_high")
    }
    ends = [report.epochs[-1].end for report in reports if report.epochs]
    return WatchedJob(
        id=group.id,
        title=group.title,
        grouped_by=group.grouped_by,
        gpus=group.gpus,
        nodes=tuple(dict.fromkeys(report.device.node for report in reports)),
        gpu_model=" + ".join(models),
        active=any(report.state != "idle" for report in reports if report not in lost),
        simulated=any(report.device.simulated for report in reports),
        since=min((report.job_since for report in reports if report.job_since is not None), default=None),
        verdict=verdict,
        **length_of,
        confidence=min(report.detection.confidence for report in telling) if kept else 0.0,
        epochs_seen=epochs_seen,
        last_epoch_end=max(ends, default=None),
        spread=max(paces.values()) / min(paces.values()) - 1 if paces else 0.0,
        straggler=slowest if slowest is not None and _stands_out(slowest, paces, telling) else None,
        best=None if best is None else f"{best.cloud} {best.name}",
        savings_cost_ratio=None if where is None or where.savings is None else where.savings.cost_ratio,
        cycles=cycles,
        throughput=pace,
        use=use,
        tensor_cores_idle=any(tensor_cores_idle(source.profile, source.gpu) for source in sources),
        plan=plan,
        answer=answer and replace(answer, use=use),  # its own may be of fewer GPUs, or older
        notes=tuple(map(plain, sentences)),
    )


def watch_gpu(report: Report, job: str | None, catalog: Catalog) -> WatchedGpu:
    """Return a GPU as it is answered."""
    device = report.device
    return WatchedGpu(
        model=_model_or_none(device, catalog),
        job=job,
        held_idle_s=None if report.profile is None else report.profile.held_idle_s,
        **{name: getattr(device, name) for name in ("uuid", "label", "name", "node", "source", "simulated")},
        **{name: getattr(report, name) for name in ("state", "detection", "hertz", "job_since", "epochs_seen", "last_sample")},
    )


def _model_or_none(device: GpuDevice, catalog: Catalog) -> str | None:
    try:
        return catalog.resolve(device.name).name
    except ValueError:
        return None


def _stands_out(slowest: str, paces: Mapping[str, float], telling: Sequence[Report]) -> bool:
    others = [pace for uuid, pace in paces.items() if uuid != slowest]
    sure = all(report.detection.confidence >= LEAST_CONFIDENCE for report in telling)
    return sure and bool(others) and paces[slowest] > _STRAGGLES * median(others)
