"""Addresses of the page: overview, a job, a GPU, an upload, and the files that they use."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from ..parts import Parts, Served
from ..workers import WorkersBusyError
from .gpu_page import gpu_page
from .job_page import job_page
from .overview import overview
from .render import STATIC, page, static
from .upload import Sent, answer_page, form_page, read_form

router = APIRouter(include_in_schema=False)

_READ = ["GET", "HEAD"]


@router.api_route("/", methods=_READ)
def show_overview(request: Request, parts: Served) -> HTMLResponse:
    """All jobs, GPUs and sources."""
    return page(request, "overview.html", live=True, here="overview", **overview(parts.analysis.snapshot, time.time()))


@router.api_route("/jobs/{job}", methods=_READ)
def show_job(request: Request, parts: Served, job: str) -> HTMLResponse:
    """A job."""
    snapshot = parts.analysis.snapshot
    answer = snapshot.jobs.get(job)
    if answer is None:
        return _missing(
            request,
            f"There is no job {job!r:.100}. Jobs are kept for {parts.settings.keep_days:g} days after they end.",
        )
    shown = job_page(answer, snapshot, parts.store.epochs, time.time())
    return page(request, "job.html", live=True, here="job", **shown)


@router.api_route("/gpus/{uuid}", methods=_READ)
def show_gpu(request: Request, parts: Served, uuid: str) -> HTMLResponse:
    """A GPU."""
    snapshot = parts.analysis.snapshot
    answer = snapshot.gpus.get(uuid)
    if answer is None:
        return _missing(request, f"There is no GPU {uuid!r:.100}. The overview lists all GPUs.")
    shown = gpu_page(answer, snapshot, parts.store.epochs, time.time())
    return page(request, "gpu.html", live=True, here="gpu", **shown)


@router.api_route("/try", methods=_READ)
def show_form(request: Request, parts: Served) -> HTMLResponse:
    """The form for a trace or a profile."""
    return page(request, "try.html", here="try", **form_page(parts, _address(request)))


@router.post("/try")
async def answer_form(request: Request, parts: Served) -> HTMLResponse:
    """The prediction of what the form sent."""
    sent = await read_form(request)
    return await run_in_threadpool(_answer, request, parts, sent)


@router.api_route("/reference", methods=_READ)
def show_reference(request: Request) -> HTMLResponse:
    """The API's operations."""
    return page(request, "reference.html", here="reference", address=_address(request), **reference(request.app.openapi()))


@router.api_route("/page/{name}", methods=_READ)
def show_file(request: Request, name: str) -> Response:
    """Style sheet, script and icon; their addresses change with their content."""
    if name not in STATIC:
        return _missing(request, f"There is no file {name!r:.100}.")
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "public, max-age=31536000, immutable"})


def _missing(request: Request, sentence: str) -> HTMLResponse:
    return page(request, "missing.html", status=404, here="", sentence=sentence)


def _answer(request: Request, parts: Parts, sent: Sent) -> HTMLResponse:
    try:
        return page(request, "try.html", here="try", **answer_page(parts, _address(request), sent))
    except (ValueError, WorkersBusyError) as error:
        status = 503 if isinstance(error, WorkersBusyError) else 422
        shown = form_page(parts, _address(request), sent) | {"error": f"{str(error)[:1].upper()}{str(error)[1:]}."}
        return page(request, "try.html", status=status, here="try", **shown)


def _address(request: Request) -> str:
    """Of the service, as whoever asks reached it."""
    return str(request.base_url).rstrip("/")


_METHODS = ("get", "put", "post", "patch", "delete")  # HEAD is told with GET


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    summary: str
    description: str
    parameters: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Chapter:
    """What belongs together."""

    name: str
    description: str
    operations: Sequence[Operation]


def reference(openapi: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template shows of an OpenAPI description."""
    chapters = [
        Chapter(tag["name"], tag.get("description", ""), [one for one, tags in _operations(openapi) if tag["name"] in tags])
        for tag in openapi.get("tags", [])
    ]
    return {"chapters": [chapter for chapter in chapters if chapter.operations]}


def _operations(openapi: Mapping[str, Any]) -> list[tuple[Operation, Sequence[str]]]:
    return [
        (_operation(method, path, told), told.get("tags", []))
        for path, methods in openapi["paths"].items()
        for method, told in methods.items()
        if method in _METHODS
    ]


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    parameters = [(one["name"], one.get("description", "")) for one in told.get("parameters", []) if one["in"] == "query"]
    return Operation(method.upper(), path, told.get("summary", ""), told.get("description", ""), parameters)
