"""Answers, and which path is answered by what: a WSGI application that is only read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from epochcast.common.errors import InputError

METHODS = "GET, HEAD, OPTIONS"

Query = dict[str, list[str]]


class Answer(NamedTuple):
    """An answer: its status, the type and the pieces of its body, and what else goes into its head."""

    status: HTTPStatus
    content_type: str
    body: Iterable[bytes]
    headers: tuple[tuple[str, str], ...] = ()

    def give(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send the head, and return the body; that of ``HEAD`` is empty."""
        head = [("Content-Type", self.content_type), ("Cache-Control", "no-store"), *self.headers]
        if isinstance(self.body, list):
            head.append(("Content-Length", str(sum(map(len, self.body)))))
        start_response(f"{self.status.value} {self.status.phrase}", head)
        # Not a list: its length would be taken for that of the body.
        return iter([b""]) if environ["REQUEST_METHOD"] == "HEAD" else self.body


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK, *headers: tuple[str, str]) -> Answer:
    """Return an answer that says ``value``."""
    return Answer(status, "application/json", [json.dumps(value, allow_nan=False).encode()], headers)


def refusal(status: HTTPStatus, said: str, *headers: tuple[str, str]) -> Answer:
    """Return an answer that says in one sentence why there is none."""
    return json_answer({"error": said}, status, *headers)


class Routes:
    """A WSGI application of exact paths; what raises InputError is answered with 400 and its sentence."""

    def __init__(self, routes: Mapping[str, Callable[[Query, WSGIEnvironment], Answer]]) -> None:
        self._routes = routes

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._answer(environ).give(environ, start_response)

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        path, method = environ.get("PATH_INFO", "/"), environ["REQUEST_METHOD"]
        handler = self._routes.get(path)
        if handler is None:
            return refusal(HTTPStatus.NOT_FOUND, f"no such path {path!r:.200}; known: {', '.join(self._routes)}")
        if method == "OPTIONS":
            return Answer(HTTPStatus.OK, "text/plain", [b""], (("Allow", METHODS),))
        if method not in ("GET", "HEAD"):
            said = f"{path} is read with GET, not {method:.20}"
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, said, ("Allow", METHODS))
        try:
            return handler(parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True), environ)
        except InputError as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))


def only_known(query: Query, *known: str) -> None:
    """Raise InputError where a query has another parameter than these: a misspelt limit would be none."""
    if unknown := sorted(set(query) - set(known)):
        raise InputError(f"unknown parameter {unknown[0]!r:.100}; known: {', '.join(known)}")
