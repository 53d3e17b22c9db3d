"""Answers on jobs, one model per kind: the JSON of commands, HTTP API and fleet; page and metrics are made of these too.

Units are base units: seconds, ratios, USD. ``low`` and ``high`` are ends of 90 % intervals. Times are unix seconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ...detector import Cycle, Reason, Unit
from ...regressor.precision import Precision
from ..plugins.answer import Answer
from ..plugins.chart import Ratio, Ratios

Verdict = Literal["epochs", "steps", "none"]
State = Literal["idle", "searching", "answered"]
Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]
Objective = Literal["cost", "time"]
Market = Literal["on-demand", "spot"]
Recipe = Literal["default", "paper"]

_OFU = "Share of the GPU's peak of matrix products that the job reaches, 0 to 1; null without tensor activity and SM clock."

_HELD_IDLE = "Seconds of the job in which memory was held and nothing ran; null where the telemetry does not show it."
_HELD_IDLE_USD = "What held_idle_s cost, by each GPU's share of its machine; null where it is not known what is rented."
_THROTTLED = "Reason -> share of time in which it held the clocks down, 0 to 1; several may hold at once. null without reasons."
_REDUCED_CLOCK = "A sentence on the reason that held the clocks down most; null below 1 % of the time."


class AnswerModel(BaseModel):
    """What all of them are: no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


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
    held_idle_s: float | None = Field(default=None, description=_HELD_IDLE)


class DetectionAnswer(AnswerModel):
    """What a GPU's job does again and again."""

    verdict: Verdict
    unit: Unit | None = Field(description="What period_s measures; a cycle is neither an epoch nor a step.")
    period_s: float | None
    confidence: float = Field(description="Probability that the period is right, 0 to 1; 0 without a period.")
    reason: Reason | None = Field(description="With verdict `none`: why.")
    cycles: list[Cycle] = Field(description="From short to long.")


class CarbonAnswer(AnswerModel):
    """Carbon dioxide equivalents of the GPUs' energy, without host, cooling and losses of the building."""

    grams_co2e: float | None = Field(default=None, description="null where the carbon intensity or the energy is not known.")
    grams_co2e_low: float | None = None
    grams_co2e_high: float | None = None


class EnergyAnswer(CarbonAnswer):
    """Mean power of all the job's GPUs, and the energy of one epoch, cycle or step."""

    watts: float
    watts_low: float
    watts_high: float
    joules: float | None
    joules_low: float | None
    joules_high: float | None


class WholeJobAnswer(CarbonAnswer):
    """The whole job on one GPU model."""

    epochs: int
    seconds: float
    seconds_low: float
    seconds_high: float
    first_epoch_s: float | None
    stall_s: float
    joules: float | None = None
    joules_low: float | None = None
    joules_high: float | None = None


class EffectAnswer(AnswerModel):
    """One factor of a ratio, with what a typical job on the same GPU shows."""

    name: str
    factor: float
    value: float | None
    typical: float | None
    unit: str


class RatioAnswer(AnswerModel):
    """Time on another GPU."""

    gpu: str
    ratio: float = Field(description="Seconds there over seconds here.")
    ratio_low: float
    ratio_high: float
    seconds: float | None = Field(description="One epoch, cycle or step there; null where only the ratio is known.")
    low: float | None
    high: float | None
    why: str = Field(description="What the answer rests on.")
    route: str = Field(description="How it was computed.")
    support: float = Field(description="1 for a job like the model's training data, towards 0 for others.")
    features: list[str] = Field(description="Metrics that the answer used.")
    by_precision: dict[str, float] = Field(description="Precision -> ratio; empty where the job's precision is known.")
    gpus: int = Field(description="Number of these GPUs that the job runs on.")
    batch: float = Field(description="Batch per GPU there over batch per GPU here.")
    waits: float = Field(description="Part of the ratio in which the job waits for its checkpoints.")


class TargetAnswer(RatioAnswer):
    """The job on one GPU model: that of its slowest GPU."""

    by_data_sheet: bool = Field(description="Nothing was measured on one of the two GPUs, so the answer relies on data sheets.")
    fits: bool | None = Field(description="Whether the job fits into its memory; null if unknown.")
    energy: EnergyAnswer | None = Field(description="null without power readings.")
    job: WholeJobAnswer | None = Field(description="null unless the number of epochs was given.")
    samples_per_s: float | None
    tokens_per_s: float | None
    trace: str | None = Field(description="The job's GPU that sets the pace there; null for a job of one GPU.")
    spread: float = Field(description="How much longer it takes than the fastest GPU of the job; 0 for one GPU.")
    explanation: list[EffectAnswer] | None = Field(default=None, description="Only from `epochcast predict --explain`.")


class GpuOfJobAnswer(AnswerModel):
    """One GPU of the job."""

    trace: str = Field(description="The trace, profile or GPU that it comes from.")
    source: str = Field(description="Its model.")
    epoch_s: float | None
    epoch_s_low: float | None
    epoch_s_high: float | None
    unit: Unit | None
    cycle: Cycle | None = Field(description="The cycle, where the unit is a cycle.")
    epochs: int = Field(description="Epochs that the profile rests on.")
    first_epoch_s: float | None
    stalls: int
    stall_s: float
    simulated: bool
    feature_set: Literal["nvml", "dcgm", "none"]
    metrics: list[str] = Field(description="Metrics that were recorded.")
    ofu: float | None = Field(default=None, description=_OFU)
    held_idle_s: float | None = Field(default=None, description=_HELD_IDLE)
    throttled: dict[str, float] | None = Field(default=None, description=_THROTTLED)
    detection: DetectionAnswer | None = Field(description="null for a profile.")
    predictions: list[RatioAnswer] = Field(description="Of this GPU alone; empty for a job of one GPU.")


class PredictionAnswer(Answer):
    """A job on every GPU that was asked about, fastest first."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    schema_: Literal["epochcast.prediction/v1"] = Field(default="epochcast.prediction/v1", alias="schema")
    recipe: Recipe = Field(description="How the predictions were made: ours, or the paper's.")
    source: str = Field(description="GPU model that the job runs on; its slowest where there are several.")
    epoch_s: float | None = Field(description="Seconds of one epoch, cycle or step of the slowest GPU.")
    epoch_s_low: float | None
    epoch_s_high: float | None
    unit: Unit | None = Field(description="What epoch_s is the length of.")
    cycle: Cycle | None = Field(description="The cycle, where the unit is a cycle.")
    detection: DetectionAnswer | None = Field(description="null for a profile.")
    epochs: int = Field(description="Epochs that the profile rests on.")
    first_epoch_s: float | None
    stalls: int
    stall_s: float
    simulated: bool = Field(description="No hardware was read.")
    feature_set: Literal["nvml", "dcgm", "none"]
    idle_at_boundaries: list[str] = Field(description="A sentence on each kind of boundary at which the job waits.")
    precision: dict[Precision, float] = Field(description="How likely the job computes in each, adding up to 1.")
    ofu: float | None = Field(default=None, description=f"{_OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{_HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=_HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{_THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=_REDUCED_CLOCK)
    samples_per_s: float | None = Field(description="null unless the samples of a step were given and steps show.")
    tokens_per_s: float | None
    gpus: list[GpuOfJobAnswer] = Field(description="GPUs of the job that count.")
    predictions: list[TargetAnswer]
    notes: list[str]

    @property
    def text(self) -> str:
        """Where the answers come from, a table, and what they rest on."""
        from .prediction_text import prediction_text

        return prediction_text(self)

    @property
    def status(self) -> int:
        """1 where no target's memory holds the job."""
        return 0 if any(target.fits is not False for target in self.predictions) else 1

    @property
    def chart(self) -> Ratios:
        """The ratio on every target that holds the job."""
        fitting = [target for target in self.predictions if target.fits is not False]
        rows = [Ratio(each.gpu, each.ratio, each.ratio_low, each.ratio_high, assumed=each.by_data_sheet) for each in fitting]
        return Ratios(self.source, rows)


class PartsAnswer(AnswerModel):
    """What the time of a whole job is spent on."""

    epochs_s: float
    epochs_s_low: float
    epochs_s_high: float
    stall_s: float
    idle_s: float
    checkpoint_s: float
    startup_s: float


class PlaceAnswer(AnswerModel):
    """Something that can be rented."""

    instance: str
    cloud: str
    region: str
    gpu: str


class PlaceEnergy(CarbonAnswer, PlaceAnswer):
    """Something that can be rented, with the energy that the GPUs take there."""

    price_stale: bool = Field(default=False, description="Its price is older than a year: it ranks after all newer prices.")
    joules: float | None = Field(default=None, description="Energy of the GPUs; null without power readings.")
    joules_low: float | None = None
    joules_high: float | None = None
    carbon_intensity: float | None = Field(default=None, description="Of the region's grid [g CO2e/kWh]; null: not known.")
    carbon_source: str | None = Field(default=None, description="Source and year of it, or `given`.")


class InstanceAnswer(PlaceEnergy):
    """The job on something that can be rented, priced whole."""

    gpu_count: int = Field(description="GPUs of one instance.")
    instances: int = Field(description="How many of them the job takes.")
    gpus: int = Field(description="GPUs of all of them that the job uses.")
    vcpus: float | None
    host_memory_bytes: float | None
    market: Market
    usd_per_hour: float = Field(description="Of all of them.")
    seconds: float | None = Field(description="One epoch, cycle or step; the rest of the job where its epochs were given.")
    seconds_low: float | None
    seconds_high: float | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    ratio: float = Field(description="Seconds there over seconds here.")
    ratio_low: float
    ratio_high: float
    by_data_sheet: bool = Field(description="Nothing was measured on one of the two GPUs, so the answer relies on data sheets.")
    job: PartsAnswer | None
    fits: bool | None = Field(description="Whether the GPU has the memory that the job needs; null where that is not known.")
    pareto: bool = Field(description="No other instance is both faster and cheaper.")
    deadline_chance: float | None = Field(description="Chance to keep the deadline; null without one.")
    budget_chance: float | None
    samples_per_s: float | None
    tokens_per_s: float | None
    price_source: str
    price_date: str
    why: str


class LeftOutAnswer(PlaceAnswer):
    """An instance that does not qualify."""

    reason: Literal["memory", "deadline", "budget", "price"] = Field(description="price: none in this market.")
    seconds: float | None
    usd: float | None


class CurrentInstance(PlaceEnergy):
    """What the job runs on now."""

    gpu_count: int
    instances: int
    usd_per_hour: float
    seconds: float | None = Field(description="Of the same work as the recommendation's seconds.")
    usd: float | None
    usd_per_gpu_hour: float | None = Field(default=None, description="One GPU's share of its machine's price.")
    assumed: bool = Field(description="Nobody said where the job runs: the cheapest instance with its GPU is assumed.")


class Savings(AnswerModel):
    """The first recommendations against the current instance; ratios are shares of the current."""

    cost_ratio: float | None = Field(description="Share of the cost saved by the cheapest; below 0 where it costs more.")
    time_ratio: float | None = Field(description="Share of the time saved by the fastest; below 0 where it takes longer.")
    usd_per_unit: float | None = Field(description="USD saved per epoch, cycle or step by the cheapest.")


class RivalAnswer(PlaceAnswer):
    """An instance that may be better than the first."""

    chance: float


class RunAnswer(PlaceAnswer):
    """A run of some epochs."""

    epochs: int
    seconds: float
    usd: float


class ExperimentAnswer(AnswerModel):
    """The cheapest runs that would settle the first place."""

    runs: list[RunAnswer]
    seconds: float
    usd: float
    saves: float = Field(description="On average, by the objective: USD or seconds.")
    worth: bool = Field(description="They save more than they take.")


class DecisionAnswer(AnswerModel):
    """How sure the first place is."""

    first: PlaceAnswer
    sure: bool = Field(description="Nothing else may be better within the 90 % intervals.")
    chance: float = Field(description="That nothing else is better than the first.")
    rivals: list[RivalAnswer]
    regret: float | None = Field(description="What the first place loses on average against the best, by the objective.")
    regret_share: float
    experiment: ExperimentAnswer | None


class VerdictAnswer(AnswerModel):
    """What to do."""

    action: Literal["stay", "move", "measure", "choose", "none"] = Field(
        description="choose: the current instance has no price to compare with; none: no instance qualifies."
    )
    text: str = Field(description="The same for people, in a few words.")
    why: str = Field(description="One sentence.")


class RecommendationAnswer(AnswerModel):
    """Ranked instances for a job."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    schema_: Literal["epochcast.recommendation/v1"] = Field(default="epochcast.recommendation/v1", alias="schema")
    verdict: VerdictAnswer
    recipe: Recipe = Field(description="How the predictions were made: ours, or the paper's.")
    source: str = Field(description="GPU model that the job runs on; its slowest where there are several.")
    simulated: bool = Field(description="No hardware was read.")
    gpus: int = Field(description="GPUs of the job now.")
    unit: Unit | None = Field(description="What seconds and USD are of, unless epochs says that they are of the whole job.")
    epochs: int | None = Field(description="Epochs, cycles or steps that seconds and USD are of; null: one.")
    cycle: Cycle | None = Field(description="The cycle, where the unit is a cycle.")
    idle_at_boundaries: list[str] = Field(description="A sentence on each kind of boundary at which the job waits.")
    precision: dict[Precision, float] = Field(description="How likely the job computes in each, adding up to 1.")
    ofu: float | None = Field(default=None, description=f"{_OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{_HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=_HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{_THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=_REDUCED_CLOCK)
    samples_per_s: float | None
    tokens_per_s: float | None
    objective: Objective
    market: Market
    memory_bytes: float | None = Field(description="That the job takes on each GPU; null where that is not known.")
    memory_reserved: bool | None = Field(description="Nearly all memory of its GPU is in use, perhaps only reserved.")
    recommendations: list[InstanceAnswer] = Field(description="Best first by the objective.")
    cheapest: InstanceAnswer | None
    fastest: InstanceAnswer | None
    left_out: list[LeftOutAnswer]
    decision: DecisionAnswer | None = Field(description="null without recommendations.")
    current: CurrentInstance | None = Field(description="null where it has no price.")
    savings: Savings | None
    notes: list[str]


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
    ofu: float | None = Field(default=None, description=f"{_OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{_HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=_HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{_THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=_REDUCED_CLOCK)
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
