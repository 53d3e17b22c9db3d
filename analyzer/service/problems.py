"""Errors as RFC 9457 has them: every answer that is not one is ``application/problem+json`` with one sentence."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from epochcast.analyzer.service.workers import WorkersBusyError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_LONGEST = 1000

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

_TITLES = {
    400: "bad request",
    401: "no valid token",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    413: "too large",
    415: "unsupported content type",
    422: "invalid request",
    500: "internal error",
    501: "not available in this installation",
    503: "unavailable now",
}


class Problem(BaseModel):
    """An error as RFC 9457 defines it (``application/problem+json``)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="One sentence: what is wrong, the value seen, and the remedy.")
    instance: str | None = None


def problem(status: int, detail: str, path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response to a request for ``path``."""
    title = _TITLES.get(status) or HTTPStatus(status).phrase.lower()
    detail = " ".join(detail.split())
    if len(detail) > _LONGEST:  # it repeats what was sent
        detail = f"{detail[:_LONGEST]}…"
    body = Problem(title=title, status=status, detail=detail, instance=path[:_LONGEST]).model_dump()
    # Escaped to ASCII: a detail may quote what was sent, which need not be encodable.
    return Response(json.dumps(body).encode("ascii"), status, headers, MEDIA_TYPE)


def answer_json(text: bytes) -> Response:
    """Return the response that is this JSON text."""
    return Response(text, media_type="application/json")


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route says of its errors in OpenAPI."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": _TITLES[status].capitalize(), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Answer the app's errors this way."""
    app.exception_handler(HTTPException)(_of_starlette)
    app.exception_handler(RequestValidationError)(_not_valid)
    app.exception_handler(ValueError)(_of_value)
    app.exception_handler(WorkersBusyError)(_busy)
    app.exception_handler(sqlite3.Error)(_no_state)
    app.exception_handler(Exception)(_failed)


def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = f"no such path: {request.url.path}; /openapi.json lists all paths"
    elif error.status_code == 400 and detail == "There was an error parsing the body":
        detail = "the JSON body cannot be read: it nests too deeply, has a number with thousands of digits, or is not UTF-8"
    elif error.status_code == 405:
        # The error names the methods of one route; others may have the same path.
        allowed = ", ".join(method for method in _METHODS if _answers(request, method))
        detail = f"{request.url.path} does not answer {request.method}; use {allowed or 'another path'}"
        return problem(405, detail, request.url.path, {"Allow": allowed})
    return problem(error.status_code, detail, request.url.path, error.headers)


def _answers(request: Request, method: str) -> bool:
    return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)


def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # FastAPI parses a body that says that it is JSON, and hands on the bytes of every other.
    if first["loc"] == ("body",) and isinstance(first["input"], bytes):
        kind = request.headers.get("content-type", "nothing")
        return problem(415, f"the body's Content-Type is {kind:.80}; send application/json", request.url.path)
    return problem(422, sentence(first), request.url.path)


def sentence(wrong: Mapping[str, Any]) -> str:
    """Return one of pydantic's errors as a sentence: where, what was seen, what to give."""
    where, *rest = wrong["loc"] or ("body",)
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in rest).removeprefix(".")
    what = f"{where} {place}".strip()
    message: str = wrong["msg"].removeprefix("Value error, ").rstrip(".")
    if wrong["type"] == "json_invalid":
        why = wrong.get("ctx", {}).get("error", message)
        return f"the body is not JSON ({why}); see the schema at /openapi.json"
    if wrong["type"] == "missing":
        return f"{what} is missing; see the schema at /openapi.json"
    if wrong["type"] == "extra_forbidden":
        return f"{what} is unknown; see the schema at /openapi.json"
    if wrong["type"] == "value_error":
        return message
    return f"{what} is {wrong.get('input')!r:.80}: {message[:1].lower()}{message[1:]}"


def _of_value(request: Request, error: Exception) -> Response:
    """An InputError of any room: its message is for the user. Another ValueError is a bug."""
    if type(error).__name__ != "InputError":
        raise error
    return problem(422, str(error), request.url.path)


def _busy(request: Request, error: Exception) -> Response:
    return problem(503, str(error), request.url.path, {"Retry-After": "5"})


def _no_state(request: Request, error: Exception) -> Response:
    log.error("the state file cannot be used: %s", error)
    detail = f"the service cannot use its state file ({error}); try again, and check the disk if this persists"
    return problem(503, detail, request.url.path, {"Retry-After": "5"})


def _failed(request: Request, error: Exception) -> Response:
    # Starlette raises it again, so that uvicorn logs it.
    return problem(500, "the service failed on this request; please report the error in its log", request.url.path)
