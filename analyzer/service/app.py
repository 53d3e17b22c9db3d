"""The service's HTTP application: routes, limits around them, and what OpenAPI says of both."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware import Middleware

from ... import __version__
from . import problems
from .auth import Auth
from .known_parameters import only_known
from .limits import Limits
from .page.routes import router as page
from .parts import Parts
from .request_metrics import Counted, RequestMetrics
from .routes import backends, gpus, jobs, operation, questions, tables, traces
from .schema import Problem
from .security_headers import SecurityHeaders

_DESCRIPTION = """How long a training job would take on every other GPU, and what it would cost, from hardware telemetry alone.

Units are base units: seconds, ratios, USD; times are unix seconds. Every error is an RFC 9457 problem whose `detail` is one
sentence. If the service requires a token, send it as a bearer token, or as the password of basic authentication.
"""

_TAGS = [
    {"name": "GPUs", "description": "The GPUs that are watched, what their detectors found, and their epochs."},
    {"name": "Jobs", "description": "GPUs that train together; their predictions and recommendations."},
    {"name": "Predictions", "description": "Answers to a profile or a trace that you send."},
    {"name": "Backends", "description": "All ways to predict, each with the schema of its requests."},
    {"name": "Tables", "description": "The GPU catalogue, and the prices of instances."},
    {"name": "Operation", "description": "Health and metrics."},
]


def create_app(parts: Parts) -> FastAPI:
    """Return the application that answers from ``parts``; whoever made these starts and stops them."""
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
            Middleware(SecurityHeaders),
            Middleware(Limits, settings=parts.settings.limits, metrics=metrics),
            Middleware(Auth, token=parts.token, metrics=metrics),
        ],
        responses=problems.answers(401, 429, 503),
    )
    app.state.parts = parts
    problems.install(app)
    for routes in (gpus.router, jobs.router, questions.router, traces.router, tables.router, backends.router(parts.backends)):
        app.include_router(routes, dependencies=[Depends(only_known)], responses=problems.answers(422))
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
        components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "password": {"type": "http", "scheme": "basic", "description": "The token as the password of any user."},
        }
        schema["security"] = [{"token": []}, {"password": []}, {}]
        app.openapi_schema = schema
    return app.openapi_schema
