"""Answers to profiles or a trace that are sent: the epochs of a trace, and predictions and recommendations."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.jobs.job import Job, JobQuestion, job_json
from epochcast.analyzer.jobs.questions import PIPELINE, GpuName, PredictionBody, PredictionQuestion, RecommendationQuestion
from epochcast.analyzer.jobs.rank import JobLimits
from epochcast.analyzer.jobs.recommend import Renting
from epochcast.analyzer.jobs.sources import JobDescription, Source, add_description
from epochcast.analyzer.jobs.whole_job import Work
from epochcast.analyzer.service.limits import PredictingRoute
from epochcast.analyzer.service.parts import Parts, Served
from epochcast.analyzer.service.problems import answer_json, answers
from epochcast.analyzer.service.routes.query import Targets, Wanted, WholeEpochs
from epochcast.analyzer.service.uploads import Kind, detection_of_upload, source_of_upload
from epochcast.analyzer.traces.detection_json import TraceDetection
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.regressor.job_types import JobType
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import Precision
from epochcast.regressor.profile import LONGEST_NAME

profiles = APIRouter(prefix="/api/v1", tags=["Predictions"], route_class=PredictingRoute)
router = APIRouter(prefix="/api/v1/traces", tags=["Predictions"])

_KINDS: dict[str, Kind] = {
    "application/vnd.apache.parquet": "parquet",
    "application/parquet": "parquet",
    "text/csv": "csv",
}

_REFUSALS = answers(400, 413, 422)
_ERRORS = answers(413, 415, 422)

_EXAMPLE = "time,gpu_utilization,power\n1700000000.0,0.97,68.2\n1700000000.1,0.98,68.5\n"
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Parquet or CSV with a column `time` [unix s] and one per metric, as `epochcast record` writes.",
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": _EXAMPLE},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


async def _upload(request: Request) -> tuple[bytes, Kind]:
    """The bytes of a request's body, and what they are."""
    sent = request.headers.get("content-type", "")
    kind = _KINDS.get(sent.partition(";")[0].strip().lower())
    if kind is None:
        raise HTTPException(415, f"the body's Content-Type is {sent[:80] or 'nothing'}; send text/csv or {next(iter(_KINDS))}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "the body has a Content-Encoding; send it as it is (Parquet is compressed already)")
    return await request.body(), kind


Uploaded = Annotated[tuple[bytes, Kind], Depends(_upload)]
OfGpu = Annotated[GpuName | None, Query(description="GPU the trace was recorded on, if the trace does not name it.")]
OfPrecision = Annotated[
    Precision | None, Query(description="Precision of the job's matrix products. Unless given: what the trace shows.")
]
ByPipeline = Annotated[Pipeline | None, Query(description=f"{PIPELINE} Unless given: as configured.")]
OfType = Annotated[JobType | None, Query(alias="type", description="What kind of job it is. Unless given: that of the family.")]
OfFamily = Annotated[str | None, Query(min_length=1, max_length=LONGEST_NAME, description="Its network, such as resnet50.")]
Answering = Annotated[bool, Query(description="The job answers, and does not train.")]


def _stated(
    precision: OfPrecision = None, job_type: OfType = None, family: OfFamily = None, inference: Answering = False
) -> JobDescription:
    return JobDescription(precision, job_type, family, inference)


Stated = Annotated[JobDescription, Depends(_stated)]


def _known(
    epoch_time: Annotated[float | None, Query(gt=0, allow_inf_nan=False, description="Seconds of an epoch, if known.")] = None,
    epoch_start: Annotated[
        list[float] | None,
        Query(min_length=3, max_length=1000, description="When each epoch starts [unix s], repeatable, if known."),
    ] = None,
) -> KnownEpochs | None:
    if epoch_start is not None:
        return KnownEpochs.of_spans("its stated starts", list(pairwise(sorted(epoch_start))))
    return known_epochs(epoch_time)


Known = Annotated[KnownEpochs | None, Depends(_known)]


SourceAndPipeline = tuple[Source, Pipeline | None]


async def _source(
    served: Served, upload: Uploaded, stated: Stated, known: Known, gpu: OfGpu = None, pipeline: ByPipeline = None
) -> SourceAndPipeline:
    own = served.settings
    source: Source = await served.workers.answer(source_of_upload, *upload, gpu, own.gpus, pipeline or own.pipeline, known)
    return add_description(source, stated), pipeline


Sent = Annotated[SourceAndPipeline, Depends(_source)]


@profiles.post(
    "/predictions",
    operation_id="predict",
    summary="Predict a profile's time on other GPUs",
    response_model=Job,
    responses=_REFUSALS,
)
def predictions_of_profiles(served: Served, question: PredictionBody) -> Response:
    """Predict how long the job of these profiles takes on each target, as `epochcast predict` does.

    Several profiles are of GPUs that train together: the slowest sets the pace.
    """
    asked = PredictionQuestion.of_body(question, {})
    return answer_json(job_json(served.advisor.answer(question.profiles, asked.of_job(), asked.pipeline)))


@profiles.post(
    "/recommendations",
    operation_id="recommend",
    summary="Recommend instances for a profile",
    response_model=Job,
    responses=_REFUSALS,
)
def recommendations_of_profiles(served: Served, question: RecommendationQuestion) -> Response:
    """Rank instances by cost or time, as `epochcast recommend` does, for a job of as many GPUs as there are profiles."""
    limits = JobLimits(
        question.deadline_s, question.budget_usd, tuple(question.regions), tuple(question.clouds), question.market
    )
    job_question = JobQuestion(
        work=None if question.epochs is None else Work(question.epochs),
        batch_may_grow=question.batch_may_grow,
        carbon_intensity=question.carbon_intensity,
        renting=Renting(
            question.objective,
            limits,
            data_parallel=question.data_parallel,
            usd_per_hour_now=question.usd_per_hour_now,
            at_most_slower=question.at_most_slower,
            switch_usd=question.switch_usd,
        ),
    )
    return answer_json(job_json(served.advisor.answer(question.profiles, job_question, question.pipeline)))


@router.post(
    "/detections",
    operation_id="detectTrace",
    summary="Detect the epochs of a trace",
    response_model=TraceDetection,
    responses=_ERRORS,
    openapi_extra=_BODY,
)
async def detections(served: Served, upload: Uploaded, known: Known) -> Response:
    """Find the epochs, as `epochcast detect` does."""
    found = await served.workers.answer(detection_of_upload, *upload, known)
    return answer_json(json.dumps(found).encode())


@router.post(
    "/predictions",
    operation_id="predictTrace",
    summary="Predict a trace's time on other GPUs",
    response_model=Job,
    responses=_ERRORS,
    openapi_extra=_BODY,
)
async def predictions(served: Served, sent: Sent, target: Targets = None, epochs: WholeEpochs = None) -> Response:
    """Find the epochs, and predict how long the job takes on each target, as `epochcast predict` does."""
    return await _answered(served, sent, epochs, targets=target)


@router.post(
    "/recommendations",
    operation_id="recommendTrace",
    summary="Recommend instances for a trace",
    response_model=Job,
    responses=_ERRORS,
    openapi_extra=_BODY,
)
async def recommendations(served: Served, sent: Sent, wanted: Wanted, epochs: WholeEpochs = None) -> Response:
    """Find the epochs, and rank instances by cost or time, as `epochcast recommend` does."""
    return await _answered(served, sent, epochs, renting=wanted)


async def _answered(served: Parts, sent: SourceAndPipeline, epochs: int | None, **asked: Any) -> Response:
    source, pipeline = sent
    question = JobQuestion(work=None if epochs is None else Work(epochs), **asked)
    return answer_json(job_json(await run_in_threadpool(served.advisor.answer, [source], question, pipeline)))
