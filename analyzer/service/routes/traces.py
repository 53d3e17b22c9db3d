"""Answers to profiles or a trace that are sent: the epochs of a trace, and predictions and recommendations."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.jobs.job import Job, job_json
from epochcast.analyzer.jobs.questions import (
    PREDICTION,
    RECOMMENDATION,
    SOURCE,
    JobQuestion,
    PredictionQuestion,
    RecommendationQuestion,
)
from epochcast.analyzer.jobs.sources import Source, add_description
from epochcast.analyzer.service.limits import PredictingRoute
from epochcast.analyzer.service.parts import Parts, Served
from epochcast.analyzer.service.problems import answer_json, answers
from epochcast.analyzer.service.routes.query import asks
from epochcast.analyzer.service.uploads import Kind, detection_of_upload, source_of_upload
from epochcast.analyzer.traces.detection_json import TraceDetection
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs

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


Upload = tuple[bytes, Kind]
"""The bytes of a request's body, and what they are."""


async def _upload(request: Request) -> Upload:
    sent = request.headers.get("content-type", "")
    kind = _KINDS.get(sent.partition(";")[0].strip().lower())
    if kind is None:
        raise HTTPException(415, f"the body's Content-Type is {sent[:80] or 'nothing'}; send text/csv or {next(iter(_KINDS))}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "the body has a Content-Encoding; send it as it is (Parquet is compressed already)")
    return await request.body(), kind


Uploaded = Annotated[Upload, Depends(_upload)]


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
Prediction = Annotated[JobQuestion, Depends(asks(*SOURCE, *PREDICTION))]
Recommendation = Annotated[JobQuestion, Depends(asks(*SOURCE, *RECOMMENDATION))]


@profiles.post(
    "/predictions",
    operation_id="predict",
    summary="Predict a profile's time on other GPUs",
    response_model=Job,
    responses=_REFUSALS,
)
def predictions_of_profiles(served: Served, asked: PredictionQuestion) -> Response:
    """Predict how long the job of these profiles takes on each target, as `epochcast predict` does.

    Several profiles are of GPUs that train together: the slowest sets the pace.
    """
    return answer_json(job_json(served.advisor.answer(asked.profiles, asked.question())))


@profiles.post(
    "/recommendations",
    operation_id="recommend",
    summary="Recommend instances for a profile",
    response_model=Job,
    responses=_REFUSALS,
)
def recommendations_of_profiles(served: Served, asked: RecommendationQuestion) -> Response:
    """Rank instances by cost or time, as `epochcast recommend` does, for a job of as many GPUs as there are profiles."""
    return answer_json(job_json(served.advisor.answer(asked.profiles, asked.question(), recommend=True)))


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
async def predictions(served: Served, upload: Uploaded, known: Known, asked: Prediction) -> Response:
    """Find the epochs, and predict how long the job takes on each target, as `epochcast predict` does."""
    return await _answer(served, upload, known, asked, recommend=False)


@router.post(
    "/recommendations",
    operation_id="recommendTrace",
    summary="Recommend instances for a trace",
    response_model=Job,
    responses=_ERRORS,
    openapi_extra=_BODY,
)
async def recommendations(served: Served, upload: Uploaded, known: Known, asked: Recommendation) -> Response:
    """Find the epochs, and rank instances by cost or time, as `epochcast recommend` does."""
    return await _answer(served, upload, known, asked, recommend=True)


async def _answer(
    served: Parts, upload: Upload, known: KnownEpochs | None, question: JobQuestion, *, recommend: bool
) -> Response:
    own = served.settings
    source: Source = await served.workers.answer(
        source_of_upload, *upload, question.gpu, own.gpus, question.pipeline or own.pipeline, known
    )
    source = add_description(source, question)
    return answer_json(job_json(await run_in_threadpool(served.advisor.answer, [source], question, recommend=recommend)))
