"""What can be asked of a job, declared once: options of commands, bodies and query parameters of requests, arguments in Python.

A profile is checked by `read_profile`, whose rules (the order of quartiles, the range of ratios) no JSON schema can say.
"""

from __future__ import annotations

import json
from copy import copy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema, create_model, model_validator

from epochcast.analyzer.jobs.prices import Market
from epochcast.analyzer.jobs.rank import JobLimits, Objective
from epochcast.analyzer.jobs.verdict import AT_MOST_SLOWER
from epochcast.analyzer.plugins.question import Body, Option, Question
from epochcast.regressor.job_types import JobType
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import Precision
from epochcast.regressor.profile import LONGEST_NAME, MOST_GPUS, Profile
from epochcast.regressor.profile_json import profile_schema, read_profile


@cache
def example_profile() -> dict[str, Any]:
    """Return the profile that examples show: of a simulated job on a T4, and it says so."""
    profile: dict[str, Any] = json.loads(files(__package__).joinpath("example_profile.json").read_text(encoding="utf-8"))
    return profile


ProfileJson = Annotated[Profile, PlainValidator(read_profile), WithJsonSchema(profile_schema())]
"""A profile in a request: checked, and described in OpenAPI."""

GpuName = Annotated[str, Field(min_length=1, max_length=100)]

_PerStep = Annotated[float | None, Option(metavar="N"), Field(gt=0, allow_inf_nan=False)]


class JobQuestion(Question):
    """What somebody asks of a job. Every field is optional; where a service is configured, None is what it is configured to."""

    gpu: Annotated[
        GpuName | None, Option(metavar="NAME"), Field(description="GPU it was recorded on, if the trace does not name it.")
    ] = None
    targets: Annotated[
        list[GpuName] | None,
        Option(name="--target", metavar="GPU", default="all"),
        Field(min_length=1, max_length=100, description="GPU to answer for."),
    ] = None
    target_gpus: Annotated[
        int | None,
        Option(metavar="N", default="as many as now"),
        Field(ge=1, le=MOST_GPUS, description="Number of GPUs in the target machine."),
    ] = None
    batch_may_grow: Annotated[
        bool, Field(description="Let the batch grow with a GPU's memory (assumes that no more epochs are needed).")
    ] = False
    epochs: Annotated[
        int | None,
        Option(metavar="N"),
        Field(ge=1, le=10**9, description="Epochs (or cycles, or steps) still to run: answers are of all of them."),
    ] = None
    startup_s: Annotated[
        float | None,
        Option(name="--startup", unit="seconds"),
        Field(ge=0, lt=1e9, description="Paid time from launching an instance to the first epoch."),
    ] = None
    samples_per_step: Annotated[
        _PerStep, Field(description="Samples in one step of the whole job, e.g. 256; adds samples/s.")
    ] = None
    tokens_per_step: Annotated[
        _PerStep, Field(description="Tokens in one step of the whole job, e.g. 524288; adds tokens/s.")
    ] = None
    carbon_intensity: Annotated[
        float | None,
        Option(metavar="G/KWH", default="of each region, where it is known"),
        # No grid is above 1000; a diesel generator has some 800.
        Field(gt=0, le=5000, description="Carbon intensity of the electricity [g CO2e/kWh], for figures of CO2e."),
    ] = None
    precision: Annotated[
        Precision | None,
        Option(default="what the telemetry shows, else unknown"),
        Field(description="Precision of the job's matrix products; tf32: FP32 code; fp32: FP32 with TF32 off."),
    ] = None
    job_type: Annotated[
        JobType | None,
        Option(name="--type", default="that of the family, else unknown"),
        Field(description="What kind of job it is."),
    ] = None
    family: Annotated[
        str | None,
        Option(metavar="NAME"),
        Field(min_length=1, max_length=LONGEST_NAME, description="Its network, such as resnet50."),
    ] = None
    inference: Annotated[bool, Field(description="The job answers, and does not train.")] = False
    pipeline: Annotated[
        Pipeline | None,
        Option(default="default"),
        Field(
            description="Epochcast's own pipeline, or the black-box paper's: its passes find the epochs, its stack predicts."
        ),
    ] = None
    model: Annotated[
        Path | None, Option(metavar="DIR"), Field(description="Model folder written by `epochcast fit regressor`.")
    ] = None
    memory_bytes: Annotated[
        float | None,
        Option(name="--memory", unit="GiB", default="the most in the trace"),
        Field(gt=0, lt=1e15, description="Memory that the job needs on each GPU."),
    ] = None
    objective: Annotated[Objective | None, Option(default="cost"), Field(description="Rank by cost or by time.")] = None
    market: Annotated[
        Market | None,
        Option(name="--spot", value="spot", help="Pay spot prices; instances without one are left out."),
        Field(description="Which price to pay; instances without one are left out."),
    ] = None
    clouds: Annotated[
        list[GpuName] | None,
        Option(name="--cloud", metavar="NAME", default="the job's, else all"),
        Field(max_length=50, description="Rank only instances of this cloud; any: all."),
    ] = None
    regions: Annotated[
        list[GpuName] | None,
        Option(name="--region", metavar="NAME"),
        Field(max_length=200, description="Rank only instances in this region."),
    ] = None
    deadline_s: Annotated[
        float | None,
        Option(name="--deadline", unit="seconds"),
        Field(gt=0, allow_inf_nan=False, description="Only instances expected to finish within this time."),
    ] = None
    budget_usd: Annotated[
        float | None,
        Option(name="--budget", metavar="USD"),
        Field(gt=0, allow_inf_nan=False, description="Only instances expected to finish the job for at most this."),
    ] = None
    machines: Annotated[
        int, Option(metavar="N"), Field(ge=1, le=MOST_GPUS, description="Machines that hold the job's GPUs now.")
    ] = 1
    data_parallel: Annotated[
        bool, Field(description="Let a one-GPU job use all GPUs of an instance; multi-GPU jobs always do.")
    ] = False
    at_most_slower: Annotated[
        float,
        Option(metavar="FACTOR"),
        Field(gt=0, le=1e6, description="Propose no move that takes more than this times the present time."),
    ] = AT_MOST_SLOWER
    usd_per_hour_now: Annotated[
        float | None,
        Option(name="--price-now", metavar="USD", default="assumed"),
        Field(gt=0, le=1e6, description="What an hour of all that the job runs on now costs."),
    ] = None
    switch_usd: Annotated[
        float | None,
        Option(name="--switch-cost", metavar="USD", default="half an hour of what it runs on now"),
        Field(ge=0, le=1e9, description="What a move costs."),
    ] = None

    @model_validator(mode="after")
    def _of_a_whole_job(self) -> Self:
        if self.startup_s is not None and self.epochs is None:
            raise ValueError(f"a start-up of {self.startup_s:g} s belongs to a whole job; give its number of epochs, too")
        return self

    @property
    def limits(self) -> JobLimits:
        """What a recommendation must keep."""
        places = tuple(self.regions or ()), tuple(self.clouds or ())
        return JobLimits(self.deadline_s, self.budget_usd, *places, self.market or "on-demand")

    def completed(self, configured: JobQuestion) -> JobQuestion:
        """The question with what is configured where it says nothing."""
        missing = {name: value for name, value in configured if getattr(self, name) is None}
        return self.model_copy(update=missing)


SOURCE = ("gpu", "precision", "job_type", "family", "inference", "pipeline")
"""What can be said of a trace that is sent."""

PREDICTION = ("targets", "target_gpus", "epochs", "samples_per_step", "tokens_per_step", "batch_may_grow", "carbon_intensity")
"""What a prediction can be asked."""

RECOMMENDATION = (
    *("epochs", "objective", "market", "clouds", "regions", "deadline_s", "budget_usd", "at_most_slower"),
    *("usd_per_hour_now", "switch_usd", "data_parallel", "batch_may_grow", "carbon_intensity"),
)
"""What a recommendation can be asked."""

RECOMMENDATION_OF_FILES = (
    *RECOMMENDATION,
    *("startup_s", "memory_bytes", "machines", "targets", "samples_per_step", "tokens_per_step", "model"),
)
"""What it can be asked beside files: by the command, and in Python."""


# What a service has settings for.
_CONFIGURED = ("pipeline", "objective", "market", "clouds", "regions", "carbon_intensity")


def request_fields(*names: str) -> dict[str, Any]:
    """Fields of `JobQuestion` as `pydantic.create_model` takes them, for what a request may ask."""
    fields = {}
    for name in names:
        field = copy(JobQuestion.model_fields[name])
        mark = next((mark for mark in field.metadata if isinstance(mark, Option)), Option())
        usual = "as configured" if name in _CONFIGURED else mark.default
        if usual:
            field.description = f"{field.description} Default: {usual}."
        fields[name] = (field.annotation, field)
    return fields


class ProfilesBody(Body):
    """The job as the profiles of its GPUs."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(examples=[{"profiles": [example_profile()]}]))

    profiles: Annotated[list[ProfileJson], Field(min_length=1, max_length=64, description="One for each GPU of the job.")]

    def question(self) -> JobQuestion:
        """What is asked of it; raises InputError where it does not go together."""
        return JobQuestion.of({name: value for name, value in self if name in JobQuestion.model_fields})


if TYPE_CHECKING:
    PredictionQuestion = ProfilesBody
    RecommendationQuestion = ProfilesBody
else:
    PredictionQuestion = create_model(
        "PredictionQuestion",
        __base__=ProfilesBody,
        __doc__="A job, and what to predict of it.",
        **request_fields(*PREDICTION, "pipeline"),
    )
    RecommendationQuestion = create_model(
        "RecommendationQuestion",
        __base__=ProfilesBody,
        __doc__="A job, and the limits of a recommendation for it.",
        **request_fields(*RECOMMENDATION, "pipeline"),
    )
