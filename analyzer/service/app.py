"""The service's HTTP application: routes, limits around them, and what OpenAPI says of both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from epochcast import __version__
from epochcast.analyzer.service import problems
from epochcast.analyzer.service.auth import Auth
from epochcast.analyzer.service.limits import Places
from epochcast.analyzer.service.page.routes import router as page
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.request_metrics import Counted, RequestMetrics
from epochcast.analyzer.service.routes import backends, gpus, jobs, operation, sources, tables, traces
from epochcast.common.settings_file import remedy

_DESCRIPTION = """How long a training job would take on every other GPU, and what it would cost, from hardware telemetry alone.

Units are base units: seconds, ratios, USD; times are unix seconds. Every error is an RFC 9457 problem whose `detail` is one
sentence. If the service requires a token, send it as a bearer token, or as the password of basic authentication.
"""

_TAGS = [
    {"name": "GPUs", "description": "The watched GPUs, the state of their detectors, and their epochs."},
    {"name": "Jobs", "description": "GPUs that train together, with predictions and recommendations."},
    {"name": "Predictions", "description": "Predictions and recommendations for a profile or trace that you send."},
    {"name": "Backends", "description": "The installed predictors, each with the schema of its requests."},
    {"name": "Tables", "description": "The GPU catalogue, and the prices of instances."},
    {"name": "Operation", "description": "Health and metrics."},
]


def create_app(parts: Parts) -> FastAPI:
    """Return the application that answers from ``parts``; the caller starts and stops them."""
    metrics = RequestMetrics(parts.registry)
    app = FastAPI(
        title="Epochcast",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        docs_url=None,  # its page would load scripts of other hosts
        redoc_url=None,
        middleware=[
            Middleware(Counted, metrics=metrics),
            Middleware(  # before bodies are read: a stranger's is not
                Auth, authentication=parts.authentication, settings=parts.settings, metrics=metrics
            ),
            Middleware(Places, settings=parts.settings.limits, metrics=metrics),
        ],
        responses=problems.answers(401, 503),
    )
    app.state.parts = parts
    app.state.predicting = asyncio.Lock()
    problems.install(app)
    api = (gpus.router, jobs.router, traces.profiles, traces.router, tables.router, sources.router)
    for routes in (*api, backends.router(parts.backends)):
        app.include_router(routes, dependencies=[Depends(_only_known)], responses=problems.answers(422))
    app.include_router(operation.router)
    app.include_router(page)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The description, with what FastAPI does not know: the schema of problems, and how to sign in."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        components = schema.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = problems.Problem.model_json_schema()
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "password": {"type": "http", "scheme": "basic", "description": "The token as the password of any user."},
        }
        schema["security"] = [{"token": []}, {"password": []}, {}]
        app.openapi_schema = schema
    return app.openapi_schema


async def _only_known(request: Request) -> None:
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
