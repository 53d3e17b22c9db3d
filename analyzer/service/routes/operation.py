"""Health and metrics of the service itself."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..answers import Health
from ..parts import Served
from ..problems import answers

router = APIRouter(tags=["Operation"])


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", operation_id="isAlive", summary="Whether the process lives", openapi_extra={"security": [{}]})
def alive() -> Alive:
    """Answer as long as the process does; needs no token."""
    return Alive()


@router.get(
    "/readyz",
    operation_id="isReady",
    summary="Whether it can be asked",
    responses=answers(503),
    openapi_extra={"security": [{}]},
)
def ready(served: Served) -> Alive:
    """Answer 503 until the state has been read and every job predicted once; needs no token."""
    if served.analysis.snapshot.health.status == "starting":
        raise HTTPException(
            503, "the service has just started and looks at its state; ask again in a moment", {"Retry-After": "2"}
        )
    return Alive()


@router.get("/api/v1/health", operation_id="getHealth", summary="How the service and its sources are")
def health(served: Served) -> Health:
    """How the service is, each source of its telemetry, and what is wrong in plain words."""
    return served.analysis.snapshot.health


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text, or OpenMetrics by Accept",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
def metrics(served: Served, request: Request) -> Response:
    """Return everything that docs/analyzer.md, "Metrics", lists."""
    encoder, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encoder(served.registry), headers={"Content-Type": content_type})
