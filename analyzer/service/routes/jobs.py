"""Jobs, and what is predicted and recommended for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.jobs.job import Job, job_json
from epochcast.analyzer.jobs.questions import RECOMMENDATION, JobQuestion
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob, watched_job_json
from epochcast.analyzer.service.listing import job_place, jobs_of, list_page
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answer_json, answers
from epochcast.analyzer.service.routes.query import After, Limit, Node, Words, asks, next_page

router = APIRouter(prefix="/api/v1/jobs", tags=["Jobs"])

JobId = Annotated[str, Path(max_length=200, description="Its id in the list of jobs.", examples=["slurm-4711"])]

Recommendation = Annotated[JobQuestion, Depends(asks(*RECOMMENDATION))]

_ERRORS = answers(404, 422)


class Jobs(BaseModel):
    """Jobs, newest first."""

    jobs: list[WatchedJob]
    total: int = Field(description="Jobs that match, on all pages.")
    next: str | None = Field(description="Path and query of the next page; null on the last one.")


@router.get("", operation_id="listJobs", summary="All jobs", responses=answers(422))
def jobs(
    request: Request,
    served: Served,
    active: Annotated[
        bool | None, Query(description="true: only jobs that run now; false: only those that have ended.")
    ] = None,
    node: Node = None,
    q: Words = "",
    limit: Limit = 100,
    after: After = "",
) -> Jobs:
    """List the jobs in the state, newest first, without predictions."""
    page = list_page(jobs_of(served.analysis.snapshot, node=node, active=active, q=q), job_place, after=after, limit=limit)
    jobs = [replace(job, answer=None) for job in page.items]
    return Jobs(jobs=jobs, total=page.total, next=next_page(request, page.next))


@router.get("/{job}", operation_id="getJob", summary="One job", response_model=WatchedJob, responses=_ERRORS)
def job(served: Served, job: JobId) -> Response:
    """Return a job with its prediction for every GPU and its recommendation, ranked by the configured objective."""
    with _known(job):
        return answer_json(watched_job_json(served.analysis.snapshot.jobs[job]))


@router.get(
    "/{job}/recommendation",
    operation_id="recommendJob",
    summary="Recommend instances for a job",
    response_model=Job,
    responses=_ERRORS,
)
def recommendation(served: Served, job: JobId, asked: Recommendation) -> Response:
    """Rank instances for all GPUs of the job, each at its full price, and compare them with what it runs on now."""
    with _known(job):
        return answer_json(job_json(served.analysis.answer(job, asked)))


@router.put(
    "/{job}/plan",
    operation_id="planJob",
    summary="Describe a job",
    status_code=204,
    responses=answers(400, 403, 404, 413, 415, 422),
)
def plan(served: Served, job: JobId, plan: JobPlan) -> None:
    """Store how many epochs the job has and where it runs; this replaces an earlier plan."""
    if served.settings.read_only:
        raise HTTPException(403, "the service is read-only; to allow plans, set read_only = false in its configuration")
    with _known(job):
        served.analysis.set_plan(job, plan)


@contextmanager
def _known(job: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        if error.args != (job,):
            raise
        raise HTTPException(404, f"no such job: {job!r:.220}; /api/v1/jobs lists all") from None
