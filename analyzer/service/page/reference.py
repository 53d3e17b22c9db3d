"""The API's operations as a page: the service's own description of itself, without a script of another host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_METHODS = ("get", "put", "post", "patch", "delete")  # HEAD is told with GET


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    summary: str
    description: str
    parameters: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Chapter:
    """What belongs together."""

    name: str
    description: str
    operations: Sequence[Operation]


def reference(openapi: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template shows of an OpenAPI description."""
    chapters = [
        Chapter(tag["name"], tag.get("description", ""), [one for one, tags in _operations(openapi) if tag["name"] in tags])
        for tag in openapi.get("tags", [])
    ]
    return {"chapters": [chapter for chapter in chapters if chapter.operations]}


def _operations(openapi: Mapping[str, Any]) -> list[tuple[Operation, Sequence[str]]]:
    return [
        (_operation(method, path, told), told.get("tags", []))
        for path, methods in openapi["paths"].items()
        for method, told in methods.items()
        if method in _METHODS
    ]


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    parameters = [(one["name"], one.get("description", "")) for one in told.get("parameters", []) if one["in"] == "query"]
    return Operation(method.upper(), path, told.get("summary", ""), told.get("description", ""), parameters)
