"""GPUs and jobs of the service and of a fleet, with the plan of a job; units as in `answer_schema`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from epochcast.analyzer.answers.answer_schema import (
    HELD_IDLE,
    HELD_IDLE_USD,
    OFU,
    REDUCED_CLOCK,
    THROTTLED,
    AnswerModel,
    PredictionAnswer,
    Verdict,
)
from epochcast.analyzer.answers.recommendation_schema import RecommendationAnswer
from epochcast.detector import Cycle, Unit

Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]
State = Literal["idle", "searching", "answered"]


class GpuAnswer(AnswerModel):
    """A GPU, and what the detector found on it."""

    uuid: str
    label: str = Field(description="Short name on its node: 0, or 0.7 for a MIG instance.")
    name: str = Field(description="The name its driver reports.")
    model: str | None = Field(description="Name in the GPU catalogue; null where the catalogue lacks it.")
    node: str
    source: str = Field(description="Source of its telemetry.")
    simulated: bool
    state: State
    verdict: Verdict
    unit: Unit | None = Field(default=None, description="What period_s measures; a cycle is neither an epoch nor a step.")
    period_s: float | None = Field(description="Seconds of an epoch, step or cycle.")
    cycles: list[Cycle] = Field(default=[], description="What its job repeats, from short to long.")
    confidence: float
    job: str | None = Field(description="Id of the job it runs, or ran last.")
    job_since: float | None
    epochs_seen: int
    last_sample: float | None
    hertz: float
    held_idle_s: float | None = Field(default=None, description=HELD_IDLE)


class JobPlan(AnswerModel):
    """What an operator knows about a job; every field is optional."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"epochs": 90, "instance": "g4dn.xlarge", "cloud": "aws", "region": "us-east-1"}]}
    )

    epochs: int | None = Field(default=None, ge=1, le=10**9, description="Epochs, cycles or steps of the whole job.")
    samples_per_step: float | None = Field(default=None, gt=0, le=1e12, description="Of all its GPUs together.")
    tokens_per_step: float | None = Field(default=None, gt=0, le=1e15, description="Of all its GPUs together.")
    instance: str | None = Field(default=None, max_length=100, description="The instance that the job runs on.")
    cloud: str | None = Field(default=None, max_length=100)
    region: str | None = Field(default=None, max_length=100)


class JobSummary(AnswerModel):
    """A training job: the GPUs that train together."""

    id: str
    title: str = Field(description="For people: Slurm job 1234, container 3f2a…, process python (4711), GPU 3 of node-7.")
    grouped_by: Grouping
    gpus: list[str] = Field(description="UUIDs.")
    nodes: list[str]
    gpu_model: str | None
    active: bool
    simulated: bool
    since: float | None
    verdict: Verdict
    unit: Unit | None
    epoch_s: float | None = Field(description="Seconds of one epoch, cycle or step on the slowest GPU.")
    epoch_s_low: float | None
    epoch_s_high: float | None
    confidence: float
    epochs_seen: int = Field(description="Epochs of this job so far.")
    last_epoch_end: float | None
    spread: float = Field(description="How much longer the slowest GPU's epochs take than the fastest's; 0 for one GPU.")
    straggler: str | None = Field(description="UUID of the slowest GPU where it stands out.")
    cheapest: str | None = Field(description="Cheapest instance, CLOUD NAME.")
    savings_cost_ratio: float | None
    cycles: list[Cycle] = Field(default=[], description="What the job repeats, from short to long.")
    samples_per_s: float | None = Field(
        default=None, description="null unless the plan gives the samples of a step and steps show."
    )
    tokens_per_s: float | None = None
    ofu: float | None = Field(default=None, description=f"{OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=REDUCED_CLOCK)
    tensor_cores_idle: bool = Field(
        default=False, description="SMs are busy in FP32 and no tensor core works; false where the telemetry does not show it."
    )


class JobAnswer(JobSummary):
    """A job with its prediction and recommendation."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    schema_: Literal["epochcast.job/v1"] = Field(default="epochcast.job/v1", alias="schema")
    plan: JobPlan
    prediction: PredictionAnswer | None = Field(description="null while nothing can be predicted; notes say why.")
    recommendation: RecommendationAnswer | None
    notes: list[str]
