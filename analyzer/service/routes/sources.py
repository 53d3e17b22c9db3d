"""Telemetry sources, and whether they answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.service.listing import list_page, source_place, sources_of
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answers
from epochcast.analyzer.service.routes.query import After, Limit, Words, next_page

router = APIRouter(prefix="/api/v1/sources", tags=["Operation"])


class Sources(BaseModel):
    """Telemetry sources by kind and name."""

    sources: list[SourceStatus]
    total: int = Field(description="Sources that match, on all pages.")
    next: str | None = Field(description="Path and query of the next page; null on the last one.")


@router.get("", operation_id="listSources", summary="Telemetry sources", responses=answers(422))
def sources(
    request: Request,
    served: Served,
    up: Annotated[bool | None, Query(description="true: only sources that answer; false: only those that do not.")] = None,
    q: Words = "",
    limit: Limit = 100,
    after: After = "",
) -> Sources:
    """List the telemetry sources, with the last error of each."""
    page = list_page(sources_of(served.analysis.watcher().sources, up=up, q=q), source_place, after=after, limit=limit)
    return Sources(sources=list(page.items), total=page.total, next=next_page(request, page.next))
