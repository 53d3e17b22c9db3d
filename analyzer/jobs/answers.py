"""What is told of jobs, one model per kind of answer: HTTP API, page, metrics and the report of a fleet are made of these.

Units are base units: seconds, ratios, USD. ``low`` and ``high`` are ends of 90 % intervals. Times are unix seconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ...detector import Cycle, Unit
from ...regressor.precision import Precision

Verdict = Literal["epochs", "steps", "none"]
State = Literal["idle", "searching", "answered"]
Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]
Objective = Literal["cost", "time"]


class AnswerModel(BaseModel):
    """What all of them are: no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


class GpuAnswer(AnswerModel):
    """A GPU that was seen, and what its detector knows."""

    uuid: str
    label: str = Field(description="Short name on its node: 0, or 0.7 for a MIG instance.")
    name: str = Field(description="As its driver calls it.")
    model: str | None = Field(description="Name in the GPU catalogue; null where the catalogue lacks it.")
    node: str
    source: str = Field(description="What reads it.")
    simulated: bool
    state: State
    verdict: Verdict
    unit: Unit | None = Field(default=None, description="What period_s is of; a cycle is neither an epoch nor a step.")
    period_s: float | None = Field(description="Seconds of an epoch, step or cycle.")
    cycles: list[Cycle] = Field(default=[], description="What its job does again and again, from short to long.")
    confidence: float
    job: str | None = Field(description="Id of the job that it runs or ran last.")
    job_since: float | None
    epochs_seen: int
    last_sample: float | None
    hertz: float


class TargetAnswer(AnswerModel):
    """The job on one GPU model."""

    gpu: str
    ratio: float = Field(description="Seconds there over seconds here.")
    ratio_low: float
    ratio_high: float
    seconds: float | None = Field(description="Of one epoch or step there; null where only the ratio is known.")
    low: float | None
    high: float | None
    why: str
    route: str
    support: float = Field(description="1 inside what training has seen, towards 0 outside.")
    by_precision: dict[str, float] = Field(
        default={}, description="Precision -> ratio; empty where the job's precision is known."
    )
    gpus: int = Field(default=1, description="How many of them the job runs on there.")
    batch: float = Field(default=1.0, description="Batch on each of them over that on each GPU here.")
    fits: bool | None = Field(default=None, description="Whether its memory holds the job; null where that is not known.")
    job_s: float | None = Field(default=None, description="Of the whole job there, where its epochs were given.")
    job_s_low: float | None = None
    job_s_high: float | None = None


class InstanceAnswer(AnswerModel):
    """The job on something that can be rented, priced whole."""

    instance: str
    cloud: str
    region: str
    gpu: str
    gpu_count: int = Field(description="GPUs of one instance.")
    instances: int = Field(description="How many of them the job takes.")
    gpus: int = Field(description="GPUs of all of them that the job uses.")
    market: Literal["on-demand", "spot"]
    usd_per_hour: float = Field(description="Of all of them.")
    seconds: float | None = Field(description="Of one epoch or step, or of what is left of the job where that is known.")
    seconds_low: float | None
    seconds_high: float | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    fits: bool | None = Field(description="Whether the GPU has the memory that the job needs; null where not known.")
    pareto: bool
    why: str


class CurrentInstance(AnswerModel):
    """What the job runs on now."""

    instance: str
    cloud: str
    region: str
    gpu: str
    gpu_count: int
    instances: int
    usd_per_hour: float
    seconds: float | None = Field(default=None, description="Of what the recommendation's seconds are of.")
    usd: float | None = None
    assumed: bool = Field(description="What is rented is not known: the cheapest with this GPU is taken.")


class Savings(AnswerModel):
    """The first recommendation against the current instance; ratios are shares of the current."""

    cost_ratio: float | None = Field(description="Share of the cost saved by the cheapest; below 0 where it costs more.")
    time_ratio: float | None = Field(description="Share of the time saved by the fastest.")
    usd_per_unit: float | None = Field(description="USD saved per epoch or step by the cheapest.")


class VerdictAnswer(AnswerModel):
    """What to do."""

    action: Literal["stay", "move", "measure", "choose", "none"] = Field(
        description="choose: what it runs on has no price to compare with; none: no instance qualifies."
    )
    text: str = Field(description="The same for people, a few words.")
    why: str = Field(description="One sentence.")


class RecommendationAnswer(AnswerModel):
    """Ranked instances."""

    objective: Objective
    unit: Unit | None
    epochs: int | None = Field(description="Epochs (or steps) that seconds and USD are of; null: of one.")
    recommendations: list[InstanceAnswer]
    cheapest: InstanceAnswer | None
    fastest: InstanceAnswer | None
    current: CurrentInstance | None
    savings: Savings | None
    sure: bool | None = Field(description="No other GPU is within the interval; null without recommendations.")
    chance: float | None = Field(description="That none is better than the first.")
    verdict: VerdictAnswer | None = None
    notes: list[str]


class PredictionAnswer(AnswerModel):
    """A job on every GPU that was asked for."""

    source: str
    epoch_s: float | None
    epoch_s_low: float | None
    epoch_s_high: float | None
    unit: Unit | None
    simulated: bool
    feature_set: Literal["nvml", "dcgm", "none"]
    precision: dict[Precision, float] = Field(default={}, description="How likely the job computes in each, adding up to 1.")
    predictions: list[TargetAnswer]
    notes: list[str]


class JobPlan(AnswerModel):
    """What an operator says of a job; all of it may be left out."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"epochs": 90, "instance": "g4dn.xlarge", "cloud": "aws", "region": "us-east-1"}]}
    )

    epochs: int | None = Field(default=None, ge=1, le=10**9, description="Epochs (or steps) of the whole job.")
    samples_per_step: float | None = Field(default=None, gt=0, le=1e12, description="Of all its GPUs together.")
    tokens_per_step: float | None = Field(default=None, gt=0, le=1e15, description="Of all its GPUs together.")
    instance: str | None = Field(default=None, max_length=100, description="What the job is rented on.")
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
    epoch_s: float | None = Field(description="Of one epoch, step or cycle, of the slowest GPU.")
    epoch_s_low: float | None
    epoch_s_high: float | None
    confidence: float
    epochs_seen: int = Field(description="Epochs of this job so far.")
    last_epoch_end: float | None
    spread: float = Field(description="How much longer the slowest GPU's epochs take than the fastest's; 0 for one GPU.")
    straggler: str | None = Field(description="UUID of the slowest GPU where it stands out.")
    cheapest: str | None = Field(description="Cheapest instance, CLOUD NAME.")
    savings_cost_ratio: float | None
    cycles: list[Cycle] = Field(default=[], description="What the job does again and again, from short to long.")
    samples_per_s: float | None = Field(default=None, description="Where the plan says how many a step has, and steps show.")
    tokens_per_s: float | None = None


class JobAnswer(JobSummary):
    """A job with all that is predicted of it."""

    plan: JobPlan
    prediction: PredictionAnswer | None = Field(description="null where nothing can be said yet; notes say why.")
    recommendation: RecommendationAnswer | None
    notes: list[str]
