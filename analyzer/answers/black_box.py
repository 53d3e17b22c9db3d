"""The backend ``black-box``: a job on other GPUs, from the telemetry of the one that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, InstanceOf

from epochcast.analyzer.answers.answer_schema import PredictionAnswer
from epochcast.analyzer.answers.job_json import prediction_answer
from epochcast.analyzer.answers.job_result import JobQuestion, answer_job
from epochcast.analyzer.answers.question_schema import (
    BATCH_MAY_GROW,
    CARBON_INTENSITY,
    PIPELINE,
    CarbonIntensity,
    GpuName,
    ProfileJson,
    example_profile,
)
from epochcast.analyzer.answers.sources import JobDescription, read_sources, with_description
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.question import Body, Http, Option, Question, body_of
from epochcast.analyzer.recommendation import Work
from epochcast.regressor import Profile, load_catalog
from epochcast.regressor.job_types import JobType
from epochcast.regressor.pipelines import Pipeline, load_predictor
from epochcast.regressor.precision import Precision
from epochcast.regressor.profile import LONGEST_NAME, MOST_GPUS

if TYPE_CHECKING:
    from epochcast.analyzer.answers.advisor import Advisor

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


class BlackBox(Plugin):
    """Predicts by profiles of hardware metrics; see ``docs/regressor.md``.

    The service answers its questions itself, with the model that it has loaded anyway: they take milliseconds.
    """

    name = "black-box"
    summary = (
        "Time of an epoch or step on every GPU of the catalogue, with 90 % intervals, from the profile of a run on one GPU."
    )
    manual = """Predict the epoch time on every GPU of the catalogue from a trace or a profile (.json).

    Several traces, a folder of traces, or the GPUs in one log count as one job, which is as slow as its slowest GPU. Exits
    1 if the job fits on none of the GPUs.

    \b
    Example: epochcast predict run.parquet --target A10G --epochs 90
             epochcast predict run.gpu0.parquet run.gpu1.parquet
             epochcast predict runs/ --type llm --tokens-per-step 524288
             epochcast predict run.parquet --family resnet50 --inference
             epochcast predict run.parquet --plot ratios.png
             epochcast predict run.parquet --target "H100 SXM5" --target-gpus 8
             epochcast predict run.parquet --pipeline paper
    """
    Question, Answer = PredictionQuestion, PredictionAnswer
    configurable = False

    def answer(self, question: PredictionQuestion) -> PredictionAnswer:
        """Answer for the traces or profiles of a job; raises InputError."""
        catalog = load_catalog(self._settings.gpus)
        pipeline = question.pipeline or "default"
        read, of_sources = read_sources([str(path) for path in question.sources], catalog, question.gpu, pipeline)
        predictor = load_predictor(pipeline, question.model or self._settings.model, catalog)
        instances, _ = load_instances(self._settings.prices, catalog)
        stated = JobDescription(question.precision, question.job_type, question.family, question.inference)
        sources = [with_description(source, stated) for source in read]
        result = answer_job(sources, predictor, instances, question.of_job(), of_job=of_sources)
        return prediction_answer(result)


def predicted(advisor: Advisor, body: PredictionBody) -> PredictionAnswer:
    """The answer to a request, with what is loaded already; raises InputError."""
    question = PredictionQuestion.of_body(body, {})
    return prediction_answer(advisor.answer(body.profiles, question.of_job(), question.pipeline))
