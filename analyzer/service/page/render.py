"""The templates, and what they can call."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from .... import __version__
from ... import words
from ...answers.answer_schema import RecommendationAnswer
from ...style import style_sheet

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
    templates = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,  # names of jobs and GPUs come from whoever starts processes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "seconds": words.seconds,
        "in_unit": words.in_unit,
        "between": words.between,
        "duration": words.length,
        "usd": words.usd,
        "share": words.share,
        "times": words.times,
        "number": words.number,
        "ago": words.ago,
        "clock": words.clock,
        "per": _per,
        "code": _code,
    }
    # Browsers keep these files until their address changes.
    for name, file in (("style", "page.css"), ("script", "page.js"), ("icon", "icon.svg")):
        templates.globals[name] = f"{file}?{hashlib.sha256(_content(file)).hexdigest()[:12]}"
    return templates


def _code(text: str) -> Markup:
    """``text`` with what stands between backquotes as code."""
    return Markup(re.sub(r"(`{1,2})([^`]+)\1", r"<code>\2</code>", str(escape(text))))


def _per(recommendation: RecommendationAnswer) -> str:
    """What seconds and USD of a recommendation are of."""
    if recommendation.unit is None:
        return ""
    if recommendation.epochs is None:
        return f"per {recommendation.unit}"
    return f"for {words.count(recommendation.epochs, recommendation.unit)}"
