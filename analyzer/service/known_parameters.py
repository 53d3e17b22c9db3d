"""Query parameters that a route does not know are refused: a misspelt limit would be none, and nobody would notice."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ...common.settings_file import remedy


def only_known(request: Request) -> None:
    """Refuse (422) a request whose query has a name that its route does not take; a dependency of every route of the API."""
    route: APIRoute = request.scope["route"]
    known = sorted(_names(route.dependant))
    for name in request.query_params:
        if name not in known:
            what = remedy(name, known) if known else "it takes none"
            raise HTTPException(422, f"{request.url.path:.300} does not know the query parameter {name!r:.60}; {what}")


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _names(needed)
