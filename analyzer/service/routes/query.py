"""Query parameters that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request

from epochcast.analyzer.jobs.questions import JobQuestion, request_fields

Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many; `next` in the answer leads to the others.")]
After = Annotated[str, Query(max_length=1000, description="Start of the page, from `next` of the previous page.")]
Words = Annotated[str, Query(max_length=200, description="Only entries with this text in a name, ignoring case.")]
Node = Annotated[str | None, Query(max_length=300, description="Only entries on this node.")]

# A parameter that is repeated is named by one of its values.
_ALIASES = {"targets": "target", "clouds": "cloud", "regions": "region", "job_type": "type"}


def asks(*names: str) -> Callable[..., JobQuestion]:
    """A dependency that makes a question of query parameters, the named fields of `JobQuestion`."""

    def question(**asked: Any) -> JobQuestion:
        return JobQuestion.of(asked)

    parameters = []
    for name, (kind, field) in request_fields(*names).items():
        query = Query(alias=_ALIASES.get(name), description=field.description)
        annotation = Annotated[kind, *field.metadata, query]  # type: ignore[valid-type]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation))
    question.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return question


def next_page(request: Request, after: str | None) -> str | None:
    """Path and query of the page that begins ``after``, for the question of ``request``; None where there is none."""
    if after is None:
        return None
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return f"{request.url.path}?{urlencode([*asked, ('after', after)])}"
