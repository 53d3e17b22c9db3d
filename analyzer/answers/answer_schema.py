"""What a prediction answers, and what all answers share: the JSON of commands, HTTP API and fleet; page and metrics use it too.

Units are base units: seconds, ratios, USD. ``low`` and ``high`` are ends of 90 % intervals. Times are unix seconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.chart import Ratio, Ratios
from epochcast.detector import Cycle, Reason, Unit
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import Precision

Verdict = Literal["epochs", "steps", "none"]
Objective = Literal["cost", "time"]
Market = Literal["on-demand", "spot"]

OFU = "Share of the GPU's peak of matrix products that the job reaches, 0 to 1; null without tensor activity and SM clock."

HELD_IDLE = "Seconds of the job in which memory was held and nothing ran; null where the telemetry does not show it."
HELD_IDLE_USD = "What held_idle_s cost, by each GPU's share of its machine; null where it is not known what is rented."
THROTTLED = "Reason -> share of time in which it held the clocks down, 0 to 1; several may hold at once. null without reasons."
REDUCED_CLOCK = "A sentence on the reason that held the clocks down most; null below 1 % of the time."


class AnswerModel(BaseModel):
    """What all of them are: no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


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
    ofu: float | None = Field(default=None, description=OFU)
    held_idle_s: float | None = Field(default=None, description=HELD_IDLE)
    throttled: dict[str, float] | None = Field(default=None, description=THROTTLED)
    detection: DetectionAnswer | None = Field(description="null for a profile.")
    predictions: list[RatioAnswer] = Field(description="Of this GPU alone; empty for a job of one GPU.")


class PredictionAnswer(Answer):
    """A job on every GPU that was asked about, fastest first."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    schema_: Literal["epochcast.prediction/v1"] = Field(default="epochcast.prediction/v1", alias="schema")
    pipeline: Pipeline = Field(description="How the predictions were made: ours, or the paper's.")
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
    ofu: float | None = Field(default=None, description=f"{OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=REDUCED_CLOCK)
    samples_per_s: float | None = Field(description="null unless the samples of a step were given and steps show.")
    tokens_per_s: float | None
    gpus: list[GpuOfJobAnswer] = Field(description="GPUs of the job that count.")
    predictions: list[TargetAnswer]
    notes: list[str]

    @property
    def text(self) -> str:
        """Where the answers come from, a table, and what they rest on."""
        from epochcast.analyzer.answers.prediction_text import prediction_text

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
