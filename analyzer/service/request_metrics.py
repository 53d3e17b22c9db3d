"""What the service exports of its own requests: how many, how long they took, and which were refused."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochcast.analyzer.live.metrics import catalog

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)

REASONS = ("site", "unauthorized", "body", "busy")

# What else is sent as a method is counted under one name: a client must not make up label values.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


# What browsers obey.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers send no Origin with our own forms
    (b"cross-origin-resource-policy", b"same-origin"),
]


class RequestMetrics:
    """The families of requests, registered with ``registry``; each name is one of the metric catalogue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = _made(Counter, "epochcast_analyzer_requests_total", registry)
        self._seconds = _made(Histogram, "epochcast_analyzer_request_seconds", registry, buckets=_BUCKETS)
        self._refused = _made(Counter, "epochcast_analyzer_refused_requests_total", registry)
        for reason in REASONS:  # 0 instead of nothing, so that a rate can be taken of the first
            self._refused.labels(reason)

    def refused(self, reason: str) -> None:
        """Count a request that was refused before any work: one of `REASONS`."""
        self._refused.labels(reason).inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


def _made(kind: type[Any], name: str, registry: CollectorRegistry, **more: Any) -> Any:
    metric = catalog()[name]
    made: MetricWrapperBase = kind(metric.name, metric.help, metric.labels, registry=registry, **more)
    return made


class Counted:
    """The outermost middleware: counts every answer under its route's template, and answers HEAD wherever GET is.

    Each answer gets the headers that browsers obey.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        inner = {**scope, "method": "GET"} if is_head else scope
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        begin = perf_counter()
        try:
            await self._app(inner, receive, watched)
        finally:
            route = getattr(inner.get("route"), "path_format", "none")
            self._metrics.answered(scope["method"], route, status, perf_counter() - begin)
