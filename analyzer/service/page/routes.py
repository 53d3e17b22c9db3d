"""Addresses of the page: overview, a job, a GPU, an upload, and the files that they use; and what its templates can call."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment
from markupsafe import Markup, escape

from epochcast import __version__
from epochcast.analyzer import words
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.service.listing import (
    ListPage,
    gpu_place,
    gpus_of,
    job_place,
    jobs_of,
    list_page,
    source_place,
    sources_of,
)
from epochcast.analyzer.service.page import states
from epochcast.analyzer.service.page.gpu_page import gpu_page
from epochcast.analyzer.service.page.job_page import job_page
from epochcast.analyzer.service.page.overview import by_node, hardware, node_row, overview, where
from epochcast.analyzer.service.page.upload import answer_page, form_page, read_form, source_of_form
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.routes.query import After, Words
from epochcast.analyzer.service.workers import WorkersBusyError
from epochcast.analyzer.style import style_sheet, templates
from epochcast.analyzer.telemetry.gpu_report import State

router = APIRouter(include_in_schema=False)

_READ = ["GET", "HEAD"]

Name = Annotated[str, Query(max_length=300)]
"""Of a node or a job; empty: all."""

ROWS = 100
"""Of a page of a long list."""


@router.api_route("/", methods=_READ)
def show_overview(request: Request, parts: Served, q: Words = "") -> HTMLResponse:
    """Jobs, GPUs and sources: all of a small fleet; of a large one the newest jobs, its nodes, and what a search finds."""
    analysis = parts.analysis
    shown = overview(analysis.snapshot, analysis.health, analysis.watcher().sources, time.time(), q.strip())
    return page(request, "overview.html", live=True, here="overview", **shown)


@router.api_route("/jobs", methods=_READ)
def show_jobs(
    request: Request,
    parts: Served,
    q: Words = "",
    state: Literal["", "running", "ended"] = "",
    node: Name = "",
    after: After = "",
) -> HTMLResponse:
    """The jobs, a hundred at a time."""
    snapshot = parts.analysis.snapshot
    jobs = jobs_of(snapshot, node=node or None, active={"": None, "running": True, "ended": False}[state], q=q.strip())
    title, choices = f"Jobs on {node}" if node else "Jobs", {"": "running and ended", "running": "running", "ended": "ended"}
    listed = list_page(jobs, job_place, after=after, limit=ROWS)
    return _list(request, "jobs", title, listed, {"q": q.strip(), "state": state, "node": node}, choices, snapshot=snapshot)


@router.api_route("/gpus", methods=_READ)
def show_gpus(
    request: Request,
    parts: Served,
    q: Words = "",
    state: State | Literal[""] = "",
    node: Name = "",
    job: Name = "",
    after: After = "",
) -> HTMLResponse:
    """The GPUs, a hundred at a time."""
    snapshot = parts.analysis.snapshot
    gpus = gpus_of(snapshot, node=node or None, job=job or None, state=state or None, q=q.strip())
    of = node or (snapshot.jobs[job].title if job in snapshot.jobs else job)
    choices = {"": "in every state", "idle": "idle", "searching": "searching", "answered": "answered"}
    query = {"q": q.strip(), "state": state, "node": node, "job": job}
    listed = list_page(gpus, gpu_place, after=after, limit=ROWS)
    return _list(request, "gpus", f"GPUs of {of}" if of else "GPUs", listed, query, choices, snapshot=snapshot)


@router.api_route("/nodes", methods=_READ)
def show_nodes(request: Request, parts: Served, q: Words = "", after: After = "") -> HTMLResponse:
    """The nodes that have a GPU that matches, a hundred at a time."""
    snapshot = parts.analysis.snapshot
    nodes = list(by_node(gpus_of(snapshot, q=q.strip())).values())
    listed = list_page(nodes, lambda node: node[0].node, after=after, limit=ROWS)
    return _list(request, "nodes", "Nodes", listed, {"q": q.strip()}, snapshot=snapshot)


@router.api_route("/sources", methods=_READ)
def show_sources(
    request: Request, parts: Served, q: Words = "", state: Literal["", "up", "down"] = "", after: After = ""
) -> HTMLResponse:
    """The telemetry sources, a hundred at a time."""
    matching = sources_of(parts.analysis.watcher().sources, up={"": None, "up": True, "down": False}[state], q=q.strip())
    choices = {"": "up and down", "up": "up", "down": "down"}
    listed = list_page(matching, source_place, after=after, limit=ROWS)
    return _list(request, "sources", "Telemetry sources", listed, {"q": q.strip(), "state": state}, choices)


def _list(
    request: Request,
    what: str,
    title: str,
    listed: ListPage[Any],
    query: Mapping[str, str],
    choices: Mapping[str, str] | None = None,
    **shown: Any,
) -> HTMLResponse:
    """A page of a long list; ``query`` goes along with the links to the others."""
    kept = {name: value for name, value in query.items() if name not in ("q", "state")}
    link = {name: value for name, value in query.items() if value}
    form = {"words": query["q"], "state": query.get("state", ""), "choices": choices or {}, "kept": kept}
    shown |= {"what": what, "title": title, "page": listed, "now": time.time(), **form}
    return page(
        request,
        "list.html",
        live=True,
        here=what,
        link=lambda after: urlencode({**link, **({"after": after} if after else {})}),
        **shown,
    )


@router.api_route("/jobs/{job}", methods=_READ)
def show_job(request: Request, parts: Served, job: str) -> HTMLResponse:
    """A job."""
    snapshot = parts.analysis.snapshot
    answer = snapshot.jobs.get(job)
    if answer is None:
        kept = f"Jobs are kept for {parts.settings.keep_days:g} days after they end."
        return _missing(request, f"There is no job {job!r:.100}. {kept}")
    shown = job_page(answer, snapshot, parts.store.epochs, time.time())
    return page(request, "job.html", live=True, here="job", **shown)


@router.api_route("/gpus/{uuid:path}", methods=_READ)
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
    try:
        source = await source_of_form(parts, sent)
        return await run_in_threadpool(
            lambda: page(request, "try.html", here="try", **answer_page(parts, _address(request), sent, source))
        )
    except (ValueError, WorkersBusyError) as error:
        status = 503 if isinstance(error, WorkersBusyError) else 422
        shown = form_page(parts, _address(request), sent) | {"error": f"{str(error)[:1].upper()}{str(error)[1:]}."}
        return page(request, "try.html", status=status, here="try", **shown)


@router.api_route("/page/{name}", methods=_READ)
def show_file(request: Request, name: str) -> Response:
    """Style sheet, script and icon; their addresses change with their content."""
    if name not in STATIC:
        return _missing(request, f"There is no file {name!r:.100}.")
    return Response(static(name), media_type=STATIC[name], headers={"Cache-Control": "public, max-age=31536000, immutable"})


def _missing(request: Request, sentence: str) -> HTMLResponse:
    return page(request, "missing.html", status=404, here="", title="Not found", sentence=sentence)


def _address(request: Request) -> str:
    """The address at which the client reached the service."""
    return str(request.base_url).rstrip("/")


STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""The style sheet and files of ``static/`` that are served, with their media types."""


def page(request: Request, template: str, *, status: int = 200, live: bool = False, **values: Any) -> HTMLResponse:
    """Return the template filled with ``values``; ``live`` pages keep themselves up to date."""
    text = (
        _templates()
        .get_template(template)
        .render(root=request.scope.get("root_path", "").rstrip("/"), version=__version__, live=live, **values)
    )
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def static(name: str) -> bytes:
    """A file of ``static/``; KeyError where it is none of `STATIC`."""
    _ = STATIC[name]
    return _content(name)


@functools.cache
def _content(name: str) -> bytes:
    return style_sheet().encode() if name == "page.css" else files(__package__).joinpath("static", name).read_bytes()


@functools.cache
def _templates() -> Environment:
    environment = templates(__package__, "templates")
    environment.filters |= {
        "seconds": words.seconds,
        "in_unit": words.in_unit,
        "between": words.between,
        "duration": words.length,
        "usd": words.usd,
        "share": words.share,
        "times": words.times,
        "energy": words.energy,
        "carbon": words.carbon,
        "number": words.number,
        "ago": words.ago,
        "clock": words.clock,
        "per": _per,
        "code": _code,
        "urlencode": partial(quote, safe=""),  # Jinja's own leaves the slashes of names
    }
    environment.globals |= {
        "states": states,
        "hardware": hardware,
        "where": where,
        "node_row": node_row,
    }
    # Browsers keep these files until their address changes.
    for name, file in (("style", "page.css"), ("script", "page.js"), ("icon", "icon.svg")):
        environment.globals[name] = f"{file}?{hashlib.sha256(_content(file)).hexdigest()[:12]}"
    return environment


def _code(text: str) -> Markup:
    """``text`` with text between backquotes as code."""
    return Markup(re.sub(r"(`{1,2})([^`]+)\1", r"<code>\2</code>", str(escape(text))))


def _per(job: Job) -> str:
    """What seconds and USD of an answer are of."""
    unit = job.here.profile.unit
    if unit is None:
        return ""
    return f"per {unit}" if job.epochs is None else f"for {words.count(job.epochs, unit)}"
