"""How much a JSON body may hold: it is parsed and checked between the other requests, which wait for as long as that takes.

Bytes alone do not bound it: 16 MiB, which a network as ONNX may need, hold one long text, read in milliseconds, or a million
unknown keys, which take ten seconds and a gigabyte to be refused one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MOST_VALUES = 20_000
"""Half as much again as 64 profiles of every metric hold; refusing so many unknown keys takes a fifth of a second."""


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
