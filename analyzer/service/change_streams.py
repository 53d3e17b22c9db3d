"""Server-sent events for open pages: ``/changes`` sends one whenever the fleet was looked at, and the page reloads itself.

A stream takes no thread, and none of the places of requests: streams have a limit of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from epochcast.analyzer.live.metrics import catalog
from epochcast.analyzer.service.problems import problem
from epochcast.analyzer.service.request_metrics import RequestMetrics

PATH = "/changes"
"""Where the events are; the page's script has it too."""

MOST = 64
"""Open streams, half of them of one address: as many as requests at once, since an event makes each page fetch itself."""

AGAIN_S = 30
"""After so long a client that was refused may try again; until then its page fetches itself as often."""

# A change is sent within a second; the next is not sooner than this: a large fleet changes all the time.
_LOOK_S, _PAUSE_S = 1.0, 5.0

# A comment after so much silence: proxies close a connection that is silent for a minute. After the longest time the browser
# reconnects, so that a client that has gone without closing its connection frees its place.
_SILENT_S, _LONGEST_S = 15.0, 600.0


class ChangeStreams:
    """The open streams of one service."""

    def __init__(self, changed: Callable[[], float | None], registry: CollectorRegistry, metrics: RequestMetrics) -> None:
        """``changed``: a number that is another after each change."""
        self._changed = changed
        self._metrics = metrics
        self._open: Counter[str] = Counter()  # by address
        self._ending = asyncio.Event()
        metric = catalog()["epochcast_analyzer_open_streams"]
        self._gauge = Gauge(metric.name, metric.help, registry=registry)

    def end(self) -> None:
        """End all of them, now and in future: the service ends."""
        self._ending.set()

    def answer(self, request: Request) -> Response:
        """Return a stream, which is counted while it is sent, or refused (503) where there are too many."""
        return _Stream(self, request.client.host if request.client else "")

    @contextlib.contextmanager
    def counted(self, client: str) -> Iterator[bool]:
        """Count a stream of this address meanwhile; False where there is no room for it."""
        has_room = self._open.total() < MOST and self._open[client] < MOST // 2
        self._open[client] += has_room
        self._gauge.inc(has_room)
        try:
            yield has_room
        finally:
            self._gauge.dec(has_room)
            self._open[client] -= has_room
            self._open += Counter()  # forgets addresses without any

    def refusal(self, path: str) -> Response:
        """Return the answer to a client for which there is no room."""
        self._metrics.refused("busy")
        detail = f"{self._open.total()} pages of this service are open and kept up to date, its limit; try again in {AGAIN_S} s"
        return problem(503, detail, path, {"Retry-After": str(AGAIN_S)})

    async def events(self) -> AsyncIterator[bytes]:
        """Yield what is sent."""
        now = asyncio.get_running_loop().time
        began = said = now()
        sent: float | None = None
        yield b"retry: 5000\n\n"
        while not self._ending.is_set() and now() - began < _LONGEST_S:
            pause_s = _LOOK_S
            if (newest := self._changed()) != sent:
                sent, said, pause_s = newest, now(), _PAUSE_S
                yield b"data: changed\n\n"
            elif now() - said >= _SILENT_S:
                said = now()
                yield b": nothing new\n\n"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause_s)


class _Stream(StreamingResponse):
    """One stream, or its refusal where there are too many when it begins."""

    def __init__(self, streams: ChangeStreams, client: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx, which else holds events back
        super().__init__(streams.events(), media_type="text/event-stream", headers=headers)
        self._streams = streams
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.counted(self._client) as has_room:
            if has_room:
                await super().__call__(scope, receive, send)
            else:
                await self._streams.refusal(scope["path"])(scope, receive, send)
