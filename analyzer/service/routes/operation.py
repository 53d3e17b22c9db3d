"""Health of the service, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.service.analysis import Health
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answers

router = APIRouter(tags=["Operation"])


@router.get("/healthz", operation_id="isAlive", summary="Whether the process is alive", openapi_extra={"security": [{}]})
async def alive() -> dict[str, str]:
    """Answer 200 while the process runs; needs no token."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    operation_id="isReady",
    summary="Whether the service is ready",
    responses=answers(503),
    openapi_extra={"security": [{}]},
)
async def ready(served: Served) -> dict[str, str]:
    """Answer 503 until the service has read its state and predicted every job once, then 200; needs no token."""
    if served.analysis.health.status == "starting":
        raise HTTPException(503, "the service is starting and reading its state; try again in a moment", {"Retry-After": "2"})
    return {"status": "ok"}


@router.get("/api/v1/health", operation_id="getHealth", summary="Health of the service and its telemetry sources")
def health(served: Served) -> Health:
    """Return the health of the service, and what is wrong with it and its telemetry sources in plain words."""
    return served.analysis.health


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
