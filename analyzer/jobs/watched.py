"""GPUs and jobs that the service watches and a fleet's analysis finds, with the plan of a job; base units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from epochcast.analyzer.jobs.clusters import Grouping
from epochcast.analyzer.jobs.cycles import Throughput
from epochcast.analyzer.jobs.gpu_use import GpuUse
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.telemetry.gpu_report import State
from epochcast.analyzer.traces.detection_json import DetectionJson
from epochcast.detector import Cycle, Unit
from epochcast.detector.epochs import Verdict


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


def read_watched_job(text: bytes | str) -> WatchedJob:
    """The job in JSON text of :func:`watched_job_json`; raises ValueError for anything else."""
    return _JOB.validate_json(text)
