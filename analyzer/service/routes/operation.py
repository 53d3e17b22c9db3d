"""Health of the service, and its metrics."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.service.analysis import Health
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answers

router = APIRouter(tags=["Operation"])


class Alive(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", operation_id="isAlive", summary="Whether the process is alive", openapi_extra={"security": [{}]})
async def alive() -> Alive:
    """Answer 200 while the process runs; needs no token."""
    return Alive()


@router.get(
    "/readyz",
    operation_id="isReady",
    summary="Whether the service is ready",
    responses=answers(503),
    openapi_extra={"security": [{}]},
)
async def ready(served: Served) -> Alive:
    """Answer 503 until the service has read its state and predicted every job once, then 200; needs no token."""
    if served.analysis.health.status == "starting":
        raise HTTPException(503, "the service is starting and reading its state; try again in a moment", {"Retry-After": "2"})
    return Alive()


@router.get("/api/v1/health", operation_id="getHealth", summary="Health of the service and its telemetry sources")
def health(served: Served) -> Health:
    """Return the health of the service and of each telemetry source, and what is wrong in plain words."""
    return served.analysis.health.model_copy(update={"unavailable_backends": served.backends.unavailable})


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text, or OpenMetrics if the Accept header asks for it",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
def metrics(served: Served, request: Request) -> Response:
    """Return the metrics of GPUs, of jobs and of the service itself."""
    encoder, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encoder(served.registry), headers={"Content-Type": content_type})
