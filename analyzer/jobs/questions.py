"""What can be asked of a job: options of commands, and the bodies of POST requests with profiles.

A profile is checked by `read_profile`, whose rules (the order of quartiles, the range of ratios) no JSON schema can say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PlainValidator, WithJsonSchema

from epochcast.analyzer.jobs.job import JobQuestion
from epochcast.analyzer.jobs.verdict import AT_MOST_SLOWER
from epochcast.analyzer.jobs.whole_job import Work
from epochcast.analyzer.plugins.question import Body, Http, Option, Question, body_of
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


CARBON_INTENSITY = "Carbon intensity of the electricity [g CO2e/kWh]"
CarbonIntensity = Annotated[float, Field(gt=0, le=5000)]  # no grid is above 1000; a diesel generator has some 800

PIPELINE = "Epochcast's own pipeline, or the black-box paper's: its passes find the epochs, its stack predicts."

BATCH_MAY_GROW = "Let the batch grow with a GPU's memory (assumes that no more epochs are needed)."


PerStep = Annotated[float | None, Option(metavar="N"), Field(gt=0, allow_inf_nan=False)]


class ProfilesBody(Body):
    """The job as the profiles of its GPUs."""

    profiles: Annotated[list[ProfileJson], Field(min_length=1, max_length=64, description="One for each GPU of the job.")]


class PredictionQuestion(Question):
    """A job on one GPU, or on several that train together."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(examples=[{"profiles": [example_profile()]}]))
    body: ClassVar[type[Body]] = ProfilesBody

    sources: Annotated[
        list[str] | list[InstanceOf[Profile]],
        Option(name="TRACES_OR_PROFILES...", argument=True),
        Field(min_length=1, description="Traces or profiles (.json), or folders of them: the GPUs of one job."),
    ]
    gpu: Annotated[
        str | None, Option(metavar="NAME"), Field(description="GPU it was recorded on, if the trace does not name it.")
    ] = None
    targets: Annotated[
        list[GpuName] | None,
        Http(),
        Option(name="--target", metavar="NAME", default="all"),
        Field(min_length=1, max_length=100, description="GPU to predict for."),
    ] = None
    target_gpus: Annotated[
        int | None,
        Http(),
        Option(metavar="N", default="as many as now"),
        Field(ge=1, le=MOST_GPUS, description="Number of GPUs in the target machine."),
    ] = None
    batch_may_grow: Annotated[bool, Http(), Field(description=BATCH_MAY_GROW)] = False
    epochs: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=10**9, description="Epochs (or cycles, or steps) in the whole job; adds its time and energy."),
    ] = None
    samples_per_step: Annotated[
        PerStep, Field(description="Samples in one step of the whole job, e.g. 256; adds samples/s.")
    ] = None
    tokens_per_step: Annotated[
        PerStep, Field(description="Tokens in one step of the whole job, e.g. 524288; adds tokens/s.")
    ] = None
    carbon_intensity: Annotated[
        CarbonIntensity | None,
        Http(),
        Option(metavar="G/KWH"),
        Field(description=f"{CARBON_INTENSITY}, for figures of CO2e."),
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
    pipeline: Annotated[Pipeline | None, Http(), Option(default="default"), Field(description=PIPELINE)] = None
    model: Annotated[
        Path | None, Option(metavar="DIR"), Field(description="Model folder written by `epochcast fit regressor`.")
    ] = None

    @classmethod
    def of_body(cls, body: Body, models: Mapping[str, Path], **more: Any) -> Self:
        """See :meth:`..plugins.question.Question.of_body`."""
        assert isinstance(body, ProfilesBody)
        return super().of_body(body, models, sources=body.profiles, **more)

    def of_job(self) -> JobQuestion:
        """What to answer of the job."""
        return JobQuestion(
            targets=self.targets,
            work=None if self.epochs is None else Work(self.epochs),
            target_gpus=self.target_gpus,
            batch_may_grow=self.batch_may_grow,
            samples_per_step=self.samples_per_step,
            tokens_per_step=self.tokens_per_step,
            carbon_intensity=self.carbon_intensity,
        )


if TYPE_CHECKING:
    PredictionBody = ProfilesBody
else:  # its other fields are those of the question
    PredictionBody = body_of(PredictionQuestion)


class RecommendationQuestion(BaseModel):
    """A job, and the limits of a recommendation for it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=lambda schema: schema.update(examples=[{"profiles": [example_profile()], "clouds": ["aws"]}]),
    )

    profiles: Annotated[list[ProfileJson], Field(min_length=1, max_length=64, description="One for each GPU of the job.")]
    epochs: Annotated[
        int | None, Field(ge=1, le=10**9, description="Epochs (or steps) of the whole job; null: those seen.")
    ] = None
    pipeline: Annotated[Pipeline | None, Field(description=f"{PIPELINE} null: as configured.")] = None
    objective: Annotated[Literal["cost", "time"], Field(description="Rank by cost or by time.")] = "cost"
    market: Annotated[Literal["on-demand", "spot"], Field(description="Which price to pay.")] = "on-demand"
    clouds: Annotated[list[GpuName], Field(max_length=50, description="Only these clouds; any: all; empty: the job's.")] = []
    regions: Annotated[list[GpuName], Field(max_length=200, description="Only these regions; empty: all.")] = []
    deadline_s: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Only instances expected to finish within this many seconds."),
    ] = None
    budget_usd: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="Only instances expected to cost at most this much.")
    ] = None
    at_most_slower: Annotated[
        float, Field(gt=0, le=1e6, description="Propose no move that takes more than this times the present time.")
    ] = AT_MOST_SLOWER
    usd_per_hour_now: Annotated[
        float | None, Field(gt=0, le=1e6, description="What an hour of all that the job runs on now costs; null: assumed.")
    ] = None
    switch_usd: Annotated[
        float | None, Field(ge=0, le=1e9, description="What a move costs; null: half an hour of what it runs on now.")
    ] = None
    data_parallel: Annotated[bool, Field(description="Also rank several GPUs for a job of one GPU.")] = False
    batch_may_grow: Annotated[bool, Field(description=BATCH_MAY_GROW)] = False
    carbon_intensity: Annotated[
        CarbonIntensity | None, Field(description=f"{CARBON_INTENSITY}; null: as configured, else the region's.")
    ] = None
