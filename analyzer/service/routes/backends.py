"""Backends: each way to predict with the schema of its questions, and an operation for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, cast

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...answers.black_box import BlackBox, predicted
from ...answers.question_schema import PredictionQuestion
from ...errors import InputError
from ...plugins.registry import Installed, Registry, ask, body, schema
from ..limits import JsonRoute
from ..parts import Parts, Served
from ..problems import answers

_BLACK_BOX = f"{BlackBox.__module__}:{BlackBox.__qualname__}"

_ERRORS = answers(400, 413, 422, 500)


class BackendAnswer(BaseModel):
    """A backend that is installed."""

    model_config = ConfigDict(extra="forbid")

    name: str
    summary: str
    package: Annotated[str, Field(description="The package that provides it, and its version.")]
    available: bool
    why: Annotated[str | None, Field(description="Why it is not available, and the remedy.")]
    question: Annotated[dict[str, Any] | None, Field(description="JSON schema of its requests; null if it cannot load.")]
    answer: Annotated[dict[str, Any] | None, Field(description="JSON schema of its answers; null if it cannot load.")]


class BackendsAnswer(BaseModel):
    """All backends that are installed."""

    model_config = ConfigDict(extra="forbid")

    backends: list[BackendAnswer]


def router(registry: Registry) -> APIRouter:
    """The routes of the installed backends; each that is available has an operation of its own, with its models in OpenAPI."""
    routes = APIRouter(prefix="/api/v1/backends", tags=["Backends"], route_class=JsonRoute)

    told = {one.name: _told(one) for one in registry}

    @routes.get("", operation_id="backends", summary="All backends")
    def backends() -> BackendsAnswer:
        """List every installed backend with the schemas of its requests and answers."""
        return BackendsAnswer(backends=list(told.values()))

    @routes.get("/{name}", operation_id="backend", summary="One backend", responses=answers(404, 422))
    def backend(name: str) -> BackendAnswer:
        """Return one backend with the schemas of its requests and answers."""
        return told[_found(registry, name).name]

    for one in registry:
        if one.backend is not None:
            routes.add_api_route(
                f"/{one.name}",
                _asked(one),
                methods=["POST"],
                operation_id=f"ask_{one.name.replace('-', '_')}",
                summary=f"Ask the backend {one.name}",
                description=one.backend.summary,
                response_model=one.backend.Answer,
                responses=_ERRORS,
            )

    @routes.post(
        "/{name}",
        operation_id="ask_another",
        summary="A backend that is not available",
        description="Answer why the backend cannot be used. Each available backend has an operation of its own.",
        responses=answers(404, 422),
        status_code=503,
        response_model=None,
        response_class=Response,  # the answer is a problem, never JSON of its own
    )
    def ask_another(name: str) -> None:
        why = _found(registry, name).why
        raise HTTPException(503, f"the backend {name} cannot be used: {why}")

    return routes


def _found(registry: Registry, name: str) -> Installed:
    installed = registry.get(name)
    if installed is None:
        known = ", ".join(one.name for one in registry)
        raise HTTPException(404, f"there is no backend {name!r:.60}; installed: {known}")
    return installed


def _told(one: Installed) -> BackendAnswer:
    kind = one.kind
    return BackendAnswer(
        name=one.name,
        summary="" if kind is None else kind.summary,
        package=one.distribution,
        available=one.backend is not None,
        why=one.why or None,
        question=None if kind is None else schema(body(kind), "validation"),
        answer=None if kind is None else schema(kind.Answer, "serialization"),
    )


def _asked(one: Installed) -> Callable[..., Any]:
    """The function behind a backend's operation."""
    backend = one.backend
    assert backend is not None
    answered_here = one.value == _BLACK_BOX

    def answered(served: Parts, question: BaseModel) -> Any:
        if answered_here:
            return predicted(served.advisor, cast(PredictionQuestion, question))
        try:
            return served.workers.run(ask, one.name, one.value, one.settings, question.model_dump_json())
        except InputError:
            raise
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # too busy
                raise
            raise HTTPException(500, f"the backend {one.name} failed on this request; the service's log says why") from error

    # FastAPI reads a route's models from its annotations, which are not known before the backend is.
    answered.__annotations__ = {"served": Served, "question": body(type(backend)), "return": backend.Answer}
    return answered
