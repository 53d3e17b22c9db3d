"""Addresses of the page: overview, a job, an upload, and the files that they use; and what its templates can call."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment
from markupsafe import Markup, escape

from epochcast import __version__
from epochcast.analyzer import words
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.service.page import states
from epochcast.analyzer.service.page.job_page import job_page
from epochcast.analyzer.service.page.overview import hardware, overview, where
from epochcast.analyzer.service.page.upload import answer_page, form_page, read_form, source_of_form
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.routes.query import Words
from epochcast.analyzer.service.workers import WorkersBusyError
from epochcast.analyzer.style import style_sheet, templates

router = APIRouter(include_in_schema=False)


@router.get("/")
def show_overview(request: Request, parts: Served, q: Words = "") -> HTMLResponse:
    """Jobs, GPUs and sources: all of a small fleet; of a large one what matters first, and what a search finds."""
    analysis = parts.analysis
    shown = overview(analysis.snapshot, analysis.health, analysis.watcher().sources, time.time(), q.strip())
    return page(request, "overview.html", live=True, here="overview", **shown)


@router.get("/jobs/{job}")
def show_job(request: Request, parts: Served, job: str) -> HTMLResponse:
    """A job."""
    snapshot = parts.analysis.snapshot
    answer = snapshot.jobs.get(job)
    if answer is None:
        kept = f"Jobs are kept for {parts.settings.keep_days:g} days after they end."
        return _missing(request, f"There is no job {job!r:.100}. {kept}")
    shown = job_page(answer, snapshot, parts.store.epochs, time.time())
    return page(request, "job.html", live=True, here="job", **shown)


@router.get("/try")
def show_form(request: Request, parts: Served) -> HTMLResponse:
    """The form for a trace or a profile."""
    return page(request, "try.html", here="try", **form_page(parts, _address(request)))


@router.post("/try")
async def answer_form(request: Request, parts: Served) -> HTMLResponse:
    """The prediction of what the form sent."""
    data, sent = await read_form(request)
    try:
        source = await source_of_form(parts, data, sent)
        return await run_in_threadpool(
            lambda: page(request, "try.html", here="try", **answer_page(parts, _address(request), sent, source))
        )
    except (ValueError, WorkersBusyError) as error:
        status = 503 if isinstance(error, WorkersBusyError) else 422
        shown = form_page(parts, _address(request), sent) | {"error": f"{str(error)[:1].upper()}{str(error)[1:]}."}
        return page(request, "try.html", status=status, here="try", **shown)


@router.get("/page/{name}")
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
