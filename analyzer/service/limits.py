"""How much a client may send: requests at once, bytes and values of a body, and how slowly it may come.

Requests beyond the limits are refused at once, counted, and cost no work. Clients are distinguished by their address.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochcast.analyzer.service.auth import OPEN
from epochcast.analyzer.service.config import LimitSettings
from epochcast.analyzer.service.problems import problem
from epochcast.analyzer.service.request_metrics import RequestMetrics
from epochcast.common.http_clients import Clients

BODY_S = 10.0
"""Seconds for a body to arrive, and one more for each `PACE` bytes of it: half a megabit per second is enough."""
PACE = 64 * 1024

# Who sends what: the page and scrapers nothing, programs JSON, people traces. Each kind keeps this share of the places.
_KINDS = ("nothing", "JSON", "another body")
_KEPT = 1 / 4

# The longest pause before a refusal: who comes back at once would else take the time of those that are answered, and all who do
# would come together.
_PAUSE_S = 0.15


class Places:
    """Middleware that passes on so many requests at once, each when it has arrived whole: 503 and 413 for the others.

    Where too many bodies are on their way, the oldest is given up, of the address that has most: honest ones do not wait for
    slow ones. An address has at most half of the places, so that it keeps out no other.
    """

    def __init__(self, app: ASGIApp, settings: LimitSettings, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._most_bytes = settings.body_bytes
        self._most = settings.requests_at_once
        self._kept = int(_KEPT * self._most)
        self._most_per_address = max(1, self._most // 2)
        self._taken: Counter[str] = Counter()  # by kind, and by address
        self._arriving = Clients(2 * self._most, self._most)  # two for each place, so that an honest one has time to arrive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        client, kind = _client(scope), _kind(scope)
        try:
            await self._check_room(client, kind)
            if kind != "nothing":
                receive = await self._received(scope, receive)
                await self._check_room(client, kind)
        except HTTPException as refusal:
            await problem(refusal.status_code, refusal.detail, scope["path"], refusal.headers)(scope, receive, send)
            return
        taken = Counter([client, kind])
        self._taken += taken
        try:
            await self._app(scope, receive, send)
        finally:
            self._taken -= taken

    async def _check_room(self, client: str, kind: str) -> None:
        """Raise HTTPException (503) where there is no place."""
        free = self._most - sum(self._taken[each] for each in _KINDS)
        kept = sum(max(0, self._kept - self._taken[each]) for each in _KINDS if each != kind)
        if self._taken[client] >= self._most_per_address:
            busy = f"{self._taken[client]} requests of {client}"
        elif free <= kept:
            busy = f"{self._most - free} requests, {self._taken[kind]} of them with {kind}"
        else:
            return
        self._metrics.refused("busy")
        await asyncio.sleep(random.uniform(_PAUSE_S / 2, _PAUSE_S))
        raise HTTPException(503, f"the service is at its limit, answering {busy}; try again in a moment", {"Retry-After": "1"})

    async def _received(self, scope: Scope, receive: Receive) -> Receive:
        """Wait for the body, and return what hands it on whole; HTTPException where it is too large or too slow."""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared[:20]) > self._most_bytes:
            raise self._too_large(declared.decode("latin-1"))
        arrival = _Arrival()
        self._arriving.add(arrival, _client(scope))
        try:
            async with arrival.deadline:
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise HTTPException(400, "the body ended before it was complete; send it again")
                    arrival.take(message.get("body", b""))
                    if len(arrival.body) > self._most_bytes:
                        raise self._too_large(f"more than {self._most_bytes}")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            self._metrics.refused("busy")
            detail = "the body arrived too slowly while other requests waited; send it faster"
            raise HTTPException(503, detail, {"Retry-After": "5", "Connection": "close"}) from None
        finally:
            self._arriving.remove(arrival)
        if _kind(scope) == "JSON" and (why := crowded(arrival.body)):
            self._metrics.refused("body")
            raise HTTPException(413, why)
        return _handing_on(bytes(arrival.body), receive)

    def _too_large(self, seen: str) -> HTTPException:
        self._metrics.refused("body")
        return HTTPException(413, f"the body has {seen:.20} bytes; send at most {self._most_bytes}", {"Connection": "close"})


class _Arrival:
    """A body on its way, which is given up when its time is over or its place is needed."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.deadline = asyncio.timeout(BODY_S)
        self._began = asyncio.get_running_loop().time()

    def take(self, part: bytes) -> None:
        self.body += part
        self.deadline.reschedule(self._began + BODY_S + len(self.body) / PACE)

    def cancel(self) -> None:
        self._began = -math.inf
        with contextlib.suppress(RuntimeError):  # its time is over just now
            self.deadline.reschedule(self._began)


def _handing_on(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def handed_on() -> Message:
        return parts.pop() if parts else await receive()

    return handed_on


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _kind(scope: Scope) -> str:
    headers = dict(scope["headers"])
    if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0").strip() == b"0":
        return "nothing"
    return "JSON" if b"json" in headers.get(b"content-type", b"").lower() else "another body"


MOST_VALUES = 20_000
"""Of a JSON body: half as much again as 64 profiles of every metric hold; refusing so many unknown keys takes 0.2 s.

It is parsed and checked between the other requests, which wait for as long as that takes, and bytes alone do not bound it:
16 MiB hold one long text, read in milliseconds, or a million unknown keys, which take ten seconds and a gigabyte to be refused
one by one.
"""


def crowded(body: bytes | bytearray) -> str:
    """Return why a JSON body holds too much, in one sentence; empty where it does not. It is not parsed for that."""
    values = sum(body.count(mark) for mark in (b",", b"[", b"{"))  # also in texts, which hold hardly any
    if values <= MOST_VALUES:
        return ""
    return f"the body holds about {values} values; send at most {MOST_VALUES}"


class PredictingRoute(APIRoute):
    """One that computes a prediction: each in its turn, or they would slow down each other, health and the page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI has it, one at a time."""
        answer = super().get_route_handler()

        async def in_turn(request: Request) -> Response:
            async with request.app.state.predicting:
                return await answer(request)

        return in_turn
