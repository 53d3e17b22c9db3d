"""What the node analyzer answers: a WSGI application over its watcher and its store."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from ..errors import InputError
from ..live.metrics import DetectionMetrics, View
from ..live.report import epoch_to_json
from ..live.state_store import StateStore
from ..live.watcher import Watcher

log = logging.getLogger(__name__)

REPORTS_SCHEMA, EPOCHS_SCHEMA = "epochcast.reports/v1", "epochcast.epochs/v1"
METHODS = "GET, HEAD, OPTIONS"
MOST_EPOCHS, EPOCHS = 5000, 1000  # of one answer: most, and unless asked otherwise

# The watcher's loop turns several times a second; a long backlog or a search takes seconds.
_LONGEST_TURN_S = 60.0

Query = dict[str, list[str]]


class Answer(NamedTuple):
    """Status, type and body of an answer, and what else goes into its head."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Api:
    """``/metrics``, ``/api/v1/reports``, ``/api/v1/epochs?gpu=&since=&limit=`` and ``/healthz`` (does detection run?)."""

    def __init__(self, watcher: Watcher, store: StateStore) -> None:
        """Answer from these."""
        self._watcher = watcher
        self._store = store
        self._registry = CollectorRegistry()
        self._registry.register(DetectionMetrics(lambda: View(watcher.reports, watcher.sources, watcher.health)))
        ProcessCollector(registry=self._registry)
        self._routes: dict[str, Callable[[Query, WSGIEnvironment], Answer]] = {
            "/metrics": self._metrics,
            "/api/v1/reports": self._reports,
            "/api/v1/epochs": self._epochs,
            "/healthz": self._health,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        answer = self._answer(environ)
        head = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body))), ("Cache-Control", "no-store")]
        start_response(f"{answer.status.value} {answer.status.phrase}", [*head, *answer.headers])
        return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        path, method = environ.get("PATH_INFO", "/"), environ["REQUEST_METHOD"]
        handler = self._routes.get(path)
        if handler is None:
            return _error(HTTPStatus.NOT_FOUND, f"no such path {path!r:.200}; known: {', '.join(self._routes)}")
        if method == "OPTIONS":
            return Answer(HTTPStatus.OK, "text/plain", b"", (("Allow", METHODS),))
        if method not in ("GET", "HEAD"):
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} is read with GET, not {method:.20}", ("Allow", METHODS))
        try:
            return handler(parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True), environ)
        except LookupError as error:
            return _error(HTTPStatus.NOT_FOUND, str(error.args[0]))
        except InputError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        except sqlite3.Error as error:
            log.warning("the state cannot be read: %s", error)
            return _error(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the state cannot be read now ({error}); ask again", ("Retry-After", "5")
            )

    def _metrics(self, _: Query, environ: WSGIEnvironment) -> Answer:
        encode, kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        return Answer(HTTPStatus.OK, kind, encode(self._registry))

    def _reports(self, _: Query, __: WSGIEnvironment) -> Answer:
        reports = [report.to_json() for _, report in sorted(self._watcher.reports.items())]
        return _json({"schema": REPORTS_SCHEMA, "reports": reports})

    def _epochs(self, query: Query, _: WSGIEnvironment) -> Answer:
        if unknown := sorted(set(query) - {"gpu", "since", "limit"}):
            raise InputError(f"unknown parameter {unknown[0]!r:.100}; known: gpu, since, limit")
        gpu = query.get("gpu", [""])[-1]
        if not gpu:
            raise InputError(f"gpu is missing; name one by its UUID: {', '.join(self._watcher.reports) or 'none is known yet'}")
        since, limit = _number(query, "since", -math.inf), _number(query, "limit", float(EPOCHS))
        if not (limit.is_integer() and 1 <= limit <= MOST_EPOCHS):
            raise InputError(f"limit is {limit:g}; give a whole number from 1 to {MOST_EPOCHS}")
        if gpu not in self._watcher.reports and self._store.report(gpu) is None:
            raise LookupError(f"unknown gpu {gpu!r:.100}; /api/v1/reports names all")
        epochs = self._store.epochs(gpu, since=None if since == -math.inf else since, limit=int(limit))
        return _json({"schema": EPOCHS_SCHEMA, "gpu": gpu, "epochs": [epoch_to_json(epoch) for epoch in epochs]})

    def _health(self, _: Query, __: WSGIEnvironment) -> Answer:
        turned = self._watcher.seconds_since_turn
        agent = [{"url": one.name, "up": one.up, "error": one.error} for one in self._watcher.sources]
        state = {"gpus": self._watcher.health.gpus, "agents": agent, "last_turn_s": round(turned, 3)}
        if turned > _LONGEST_TURN_S:
            return _json({"status": "detection hangs", **state}, HTTPStatus.SERVICE_UNAVAILABLE)
        return _json({"status": "ok", **state})


def _number(query: Query, name: str, default: float) -> float:
    text = query.get(name, [""])[-1]
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name} is {text!r:.100}; give a number")
    return value


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK, *headers: tuple[str, str]) -> Answer:
    return Answer(status, "application/json", json.dumps(value, allow_nan=False).encode(), headers)


def _error(status: HTTPStatus, said: str, *headers: tuple[str, str]) -> Answer:
    return _json({"error": said}, status, *headers)
