"""Connections without a request: uvicorn keeps one open for ever that does not finish its request's head.

It answers 503 once so many are open, so that whoever opens enough of them would keep all others out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

LOOK_S = 20.0
"""Seconds from one look at a connection to the next. One that sends no request in between is closed."""

# Looks after which what was answered and is not taken by the client is thrown away with the connection.
_MOST_LOOKS = 3


class Connection(H11Protocol):
    """Uvicorn's connection, which is closed when it stands still; one whose question is being answered never does."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._looks = 0  # that found nothing new
        self._answered: RequestResponseCycle | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._next_look = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        question: RequestResponseCycle | None = self.cycle
        stands = question is self._answered and (question is None or question.response_complete)
        self._answered, self._looks = question, self._looks + 1 if stands else 0
        if self._looks >= _MOST_LOOKS:
            self.transport.abort()
        elif stands:
            self.transport.close()
        self._next_look = self.loop.call_later(LOOK_S, self._look)
