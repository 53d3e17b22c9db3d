"""Query parameters that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request
from pydantic import BaseModel, create_model

from epochcast.analyzer.jobs.questions import JobQuestion, request_fields

Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many; `next` in the answer leads to the others.")]
After = Annotated[str, Query(max_length=1000, description="Start of the page, from `next` of the previous page.")]
Words = Annotated[str, Query(max_length=200, description="Only entries with this text in a name, ignoring case.")]
Node = Annotated[str | None, Query(max_length=300, description="Only entries on this node.")]

# A parameter that is repeated is named by one of its values.
_ALIASES = {"targets": "target", "clouds": "cloud", "regions": "region", "job_type": "type"}


def asks(*names: str) -> Callable[..., JobQuestion]:
    """A dependency that makes a question of query parameters, the named fields of `JobQuestion`."""
    fields = request_fields(*names)
    for name, alias in _ALIASES.items():
        if name in fields:
            fields[name][1].alias = fields[name][1].validation_alias = alias

    def question(asked: BaseModel) -> JobQuestion:
        return JobQuestion.of(dict(asked))

    question.__annotations__["asked"] = Annotated[create_model("Asked", **fields), Query()]
    return question


def next_page(request: Request, after: str | None) -> str | None:
    """Path and query of the page that begins ``after``, for the question of ``request``; None where there is none."""
    if after is None:
        return None
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return f"{request.url.path}?{urlencode([*asked, ('after', after)])}"
