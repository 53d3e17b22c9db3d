"""How much a client may ask: requests per minute, requests at once, bytes and values of a body, and seconds to send it.

Requests beyond the limits are refused at once, counted, and cost no work. Clients are distinguished by their address.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .auth import OPEN
from .config import LimitSettings
from .problems import problem
from .request_metrics import RequestMetrics

# For receiving the question and waiting for a worker process, beyond the seconds that an answer may take.
_GRACE_S = 25.0

# Of the requests at once, what those that bring a body may be: bodies that trickle in leave room for the page and for metrics.
_WITH_BODY = 7 / 8


class RequestLimits:
    """Middleware that refuses what is beyond the limits: 429, 503 and 413."""

    def __init__(self, app: ASGIApp, settings: LimitSettings, metrics: RequestMetrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._at_once = 0
        self._with_body = 0
        self._most_with_body = max(1, int(_WITH_BODY * settings.requests_at_once))
        self._rate = FixedWindowRateLimiter(MemoryStorage()) if settings.requests_per_minute else None
        self._allowed = RateLimitItemPerMinute(max(1, settings.requests_per_minute))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        client = (scope.get("client") or ("",))[0]
        if self._rate is not None and not self._rate.hit(self._allowed, client):
            left_s = self._rate.get_window_stats(self._allowed, client).reset_time - time.time()
            self._metrics.refused("rate")
            detail = f"{client} sent more than {self._settings.requests_per_minute} requests in a minute; send fewer"
            headers = {"Retry-After": str(max(1, math.ceil(left_s)))}
            await problem(429, detail, scope["path"], headers)(scope, receive, send)
            return
        brings_body = _brings_body(scope)
        refusal = None
        if self._at_once >= self._settings.requests_at_once:
            refusal = f"{self._at_once} requests"
        elif brings_body and self._with_body >= self._most_with_body:
            refusal = f"{self._with_body} requests with a body"
        if refusal is not None:
            self._metrics.refused("busy")
            detail = f"the service is already answering {refusal}, its limit; try again in a moment"
            await problem(503, detail, scope["path"], {"Retry-After": "1"})(scope, receive, send)
            return
        self._at_once += 1
        self._with_body += brings_body
        try:
            await self._limited(scope, receive, send)
        finally:
            self._at_once -= 1
            self._with_body -= brings_body

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared[:20]) > self._settings.body_bytes:
            refusal = self._too_large(declared.decode("latin-1"))
            await problem(refusal.status_code, refusal.detail, scope["path"])(scope, receive, send)
            return
        received, started = 0, False

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._settings.body_bytes:
                raise self._too_large(f"more than {self._settings.body_bytes}")
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            # Work in threads and worker processes has limits of its own; this one ends a body that trickles in.
            async with asyncio.timeout(self._settings.seconds + _GRACE_S):
                await self._app(scope, bounded, watched)
        except TimeoutError:
            if started:
                raise
            self._metrics.refused("busy")
            detail = f"no answer within {self._settings.seconds + _GRACE_S:g} s; send the body faster or ask for less"
            await problem(503, detail, scope["path"], {"Retry-After": "5", "Connection": "close"})(scope, receive, send)

    def _too_large(self, seen: str) -> HTTPException:
        self._metrics.refused("body")
        most = self._settings.body_bytes
        return HTTPException(413, f"the body has {seen:.20} bytes; send at most {most}", {"Connection": "close"})


def _brings_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


MOST_VALUES = 20_000
"""Of a JSON body: half as much again as 64 profiles of every metric hold; refusing so many unknown keys takes 0.2 s.

It is parsed and checked between the other requests, which wait for as long as that takes, and bytes alone do not bound it:
16 MiB, which a network as ONNX may need, hold one long text, read in milliseconds, or a million unknown keys, which take ten
seconds and a gigabyte to be refused one by one.
"""


def crowded(body: bytes) -> str:
    """Return why a JSON body holds too much, in one sentence; empty where it does not. It is not parsed for that."""
    values = sum(body.count(mark) for mark in (b",", b"[", b"{"))  # in texts too, where hardly any stand
    if values <= MOST_VALUES:
        return ""
    return f"the body holds about {values} values; send at most {MOST_VALUES}"


class JsonRoute(APIRoute):
    """A route whose JSON body is not parsed where it holds too much: 413."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI has it, with a request that looks at its body first."""
        answer = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            return await answer(_Request(request.scope, request.receive))

        return bounded


class _Request(Request):
    async def json(self) -> Any:
        if why := crowded(await self.body()):
            raise HTTPException(413, why)
        return await super().json()
