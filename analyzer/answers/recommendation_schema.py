"""What a recommendation answers: instances, what is left out, and the decision; units as in `answer_schema`."""

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
    CarbonAnswer,
    Market,
    Objective,
)
from epochcast.detector import Cycle, Unit
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import Precision


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


class ExperimentAnswer(PlaceAnswer):
    """The run of some epochs that tells most about the first place."""

    epochs: int
    seconds: float
    usd: float
    saves: float = Field(description="On average, by the objective: USD or seconds.")
    worth: bool = Field(description="It saves more than it takes.")


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
    pipeline: Pipeline = Field(description="How the predictions were made: ours, or the paper's.")
    source: str = Field(description="GPU model that the job runs on; its slowest where there are several.")
    simulated: bool = Field(description="No hardware was read.")
    gpus: int = Field(description="GPUs of the job now.")
    unit: Unit | None = Field(description="What seconds and USD are of, unless epochs says that they are of the whole job.")
    epochs: int | None = Field(description="Epochs, cycles or steps that seconds and USD are of; null: one.")
    cycle: Cycle | None = Field(description="The cycle, where the unit is a cycle.")
    idle_at_boundaries: list[str] = Field(description="A sentence on each kind of boundary at which the job waits.")
    precision: dict[Precision, float] = Field(description="How likely the job computes in each, adding up to 1.")
    ofu: float | None = Field(default=None, description=f"{OFU} Mean over the job's GPUs.")
    held_idle_s: float | None = Field(default=None, description=f"{HELD_IDLE} Sum over the job's GPUs.")
    held_idle_usd: float | None = Field(default=None, description=HELD_IDLE_USD)
    throttled: dict[str, float] | None = Field(default=None, description=f"{THROTTLED} Mean over the job's GPUs.")
    reduced_clock: str | None = Field(default=None, description=REDUCED_CLOCK)
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
