"""Connections without a request: uvicorn keeps one open for ever that does not finish its request's head.

Here such a connection has a deadline, and makes room for others before that (`Clients`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from epochcast.common.http_clients import Clients

LOOK_S = 20.0
"""Seconds from one look at a connection to the next. One that sends no request in between is closed."""

# Looks after which what was answered and is not taken by the client is thrown away with the connection.
_MOST_LOOKS = 3


class Connection(H11Protocol):
    """Uvicorn's connection, which is closed when it is idle; it stays open while a question is answered."""

    def __init__(self, *arguments: Any, clients: Clients, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._clients = clients
        self._looks = 0  # that found nothing new
        self._answered: RequestResponseCycle | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._next_look = self.loop.call_later(LOOK_S, self._look)
        self._has_no_request()

    def data_received(self, data: bytes) -> None:
        """Let the connection stay once its head is whole."""
        super().data_received(data)
        if self._is_being_answered:
            self._clients.is_whole(self)

    def on_response_complete(self) -> None:
        """Let it make room again until its next request, and while its answer is not taken."""
        super().on_response_complete()
        if not self._is_being_answered:  # pipelined requests follow each other at once
            self._has_no_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._next_look is not None:
            self._next_look.cancel()
        self._clients.remove(self)
        super().connection_lost(exc)

    def cancel(self) -> None:
        """Make room for another connection."""
        self.transport.abort()

    @property
    def _is_being_answered(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _has_no_request(self) -> None:
        self._clients.add(self, self.client[0] if self.client else "")

    def _look(self) -> None:
        question: RequestResponseCycle | None = self.cycle
        is_idle = question is self._answered and not self._is_being_answered
        self._answered, self._looks = question, self._looks + 1 if is_idle else 0
        if self._looks >= _MOST_LOOKS:
            self.transport.abort()
        elif is_idle:
            self.transport.close()
        self._next_look = self.loop.call_later(LOOK_S, self._look)
