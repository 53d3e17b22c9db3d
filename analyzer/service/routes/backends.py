"""Backends: each way to predict with the schema of its questions, and an operation for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.registry import Installed, Registry, ask, body, schema
from epochcast.analyzer.service.parts import Parts, Served
from epochcast.analyzer.service.problems import answers

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


def router(registry: Registry) -> APIRouter:
    """The routes of the installed backends; each that is available has an operation of its own, with its models in OpenAPI."""
    routes = APIRouter(prefix="/api/v1/backends", tags=["Backends"])

    described = {installed.name: _described(installed) for installed in registry}

    @routes.get("", operation_id="backends", summary="All backends")
    def backends() -> dict[str, list[BackendAnswer]]:
        """List every installed backend with the schemas of its requests and answers."""
        return {"backends": list(described.values())}

    @routes.get("/{name}", operation_id="backend", summary="One backend", responses=answers(404, 422))
    def backend(name: str) -> BackendAnswer:
        """Return one backend with the schemas of its requests and answers."""
        return described[_installed(registry, name).name]

    for installed in registry:
        if installed.backend is not None:
            routes.add_api_route(
                f"/{installed.name}",
                _operation(installed),
                methods=["POST"],
                operation_id=f"ask_{installed.name.replace('-', '_')}",
                summary=f"Query the backend {installed.name}",
                description=installed.backend.summary,
                response_model=installed.backend.Answer,
                responses=_ERRORS,
            )

    @routes.post(
        "/{name}",
        operation_id="ask_another",
        summary="A backend that is not available",
        description="Answer why the backend cannot be used. Each available backend has its own operation.",
        responses=answers(404, 422, 501),
        status_code=501,  # and not 503, after which clients try again
        response_model=None,
        response_class=Response,  # the answer is a problem, never JSON of its own
    )
    def unavailable(name: str) -> None:
        why = _installed(registry, name).why
        raise HTTPException(501, f"the backend {name} cannot be used: {why}")

    return routes


def _installed(registry: Registry, name: str) -> Installed:
    installed = registry.get(name)
    if installed is None:
        known = ", ".join(installed.name for installed in registry)
        raise HTTPException(404, f"there is no backend {name!r:.60}; installed: {known}")
    return installed


def _described(installed: Installed) -> BackendAnswer:
    kind = installed.kind
    return BackendAnswer(
        name=installed.name,
        summary="" if kind is None else kind.summary,
        package=installed.distribution,
        available=installed.backend is not None,
        why=installed.why or None,
        question=None if kind is None else schema(body(kind), "validation"),
        answer=None if kind is None else schema(kind.Answer, "serialization"),
    )


def _operation(installed: Installed) -> Callable[..., Any]:
    """The function behind a backend's operation."""
    backend = installed.backend
    assert backend is not None

    async def answered(served: Parts, question: BaseModel) -> Any:
        try:
            return await served.workers.answer(
                ask, installed.name, installed.value, installed.settings, question.model_dump_json()
            )
        except InputError:
            raise
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # too busy
                raise
            raise HTTPException(
                500, f"the backend {installed.name} failed on this request; the service's log says why"
            ) from error

    # FastAPI reads a route's models from its annotations, which are not known before the backend is.
    answered.__annotations__ = {"served": Served, "question": body(type(backend)), "return": backend.Answer}
    return answered
