"""Which backends are installed: found by their entry points, checked, asked, and none hurts another."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from epochcast.analyzer.errors import InputError, type_and_text
from epochcast.analyzer.plugins import GROUP, Backend, Settings, is_ours
from epochcast.analyzer.plugins.question import Body, Question, body_of

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")


@dataclass(frozen=True)
class Installed:
    """One entry point.

    Attributes:
        name: of the backend.
        value: ``package.module:Class``.
        distribution: the package that it comes with, and its version.
        settings: what the backend is made with.
        kind: its class; None where that could not be loaded.
        backend: ready for questions; None where it cannot be used.
        why: why it cannot be used, with the remedy; empty where it can.
    """

    name: str
    value: str
    distribution: str
    settings: Settings
    kind: type[Backend] | None
    backend: Backend | None
    why: str = ""


class Registry:
    """The installed backends, in the order of their names; ours come before others of the same name."""

    def __init__(self, installed: Iterable[Installed]) -> None:
        self._all = tuple(installed)

    @classmethod
    def load(cls, settings: Settings, tables: Mapping[str, Mapping[str, Any]]) -> Registry:
        """Load all entry points of the group; what cannot be loaded is there with the reason.

        Args:
            settings: for every backend.
            tables: of the configuration, ``[backends.NAME]``, by name: added as ``own``.

        Raises:
            InputError: a table is of no installed backend.
        """
        points = sorted(set(entry_points(group=GROUP)), key=lambda point: (point.name, not is_ours(point), point.value))
        if unknown := sorted(set(tables) - {point.name for point in points}):
            raise InputError(
                f"the configuration has a table for the backend {unknown[0]!r}, which is not installed; installed are "
                f"{', '.join(point.name for point in points)}"
            )
        installed: dict[str, Installed] = {}
        for point in points:
            if point.name in installed:
                log.warning("the backend %s of %s is skipped: another has that name", point.name, _package(point))
                continue
            own = replace(settings, own=dict(tables.get(point.name, {})))
            installed[point.name] = _loaded(point, own)
            if installed[point.name].backend is None:
                # What lacks an extra or a table of the configuration says so itself; what cannot be loaded is broken.
                level = logging.WARNING if installed[point.name].kind is None else logging.INFO
                log.log(level, "the backend %s cannot be used: %s", point.name, installed[point.name].why)
        return cls(installed.values())

    def __iter__(self) -> Iterator[Installed]:
        return iter(self._all)

    def get(self, name: str) -> Installed | None:
        """The backend of this name; None if none is installed."""
        return next((installed for installed in self._all if installed.name == name), None)


@lru_cache(maxsize=64)
def schema(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """The JSON schema of a backend's question or answer; made once, as that takes longer than all else here."""
    return model.model_json_schema(mode=mode)


def body(kind: type[Backend]) -> type[BaseModel]:
    """The model of a backend's requests over HTTP."""
    return body_of(kind.Question) if issubclass(kind.Question, Question) else kind.Question


def backend_class(name: str, value: str) -> type[Backend]:
    """Import what an entry point names, and check that it is a backend.

    Raises:
        InputError: it cannot be imported, or is none; in one sentence.
    """
    try:
        kind: Any = EntryPoint(name, value, GROUP).load()
    except (Exception, SystemExit) as error:  # the import runs another's code
        raise InputError(f"{value} cannot be imported ({type_and_text(error)}); fix or uninstall it") from error
    try:
        if not (_NAME.fullmatch(name) and kind.name == name and isinstance(kind.summary, str) and callable(kind.answer)):
            raise ValueError(f"its name must be {name!r}, of at most 50 lower-case letters, digits and dashes")
        schema(body(kind), "validation")
        schema(kind.Answer, "serialization")
    except Exception as error:  # of pydantic, or of what the class does
        raise InputError(
            f"{value} is not a backend: a class with name, summary, Question, Answer (models of pydantic with a JSON schema) "
            f"and a method answer ({type_and_text(error)})"
        ) from error
    return kind  # type: ignore[no-any-return]


def _loaded(point: EntryPoint, settings: Settings) -> Installed:
    kind, backend, why = None, None, ""
    try:
        kind = backend_class(point.name, point.value)
        backend = kind(settings)
    except (Exception, SystemExit) as error:
        # What a backend says of itself is a ValueError of one sentence; anything else comes with its type.
        why = " ".join(str(error).split()) if isinstance(error, ValueError) and str(error) else type_and_text(error)
    return Installed(point.name, point.value, _package(point), settings, kind, backend, why)


def _package(point: EntryPoint) -> str:
    return "" if point.dist is None else f"{point.dist.name} {point.dist.version}"


_ready: dict[str, Backend] = {}
"""Backends of this process by entry point: what one has loaded serves its next question."""


def ask(name: str, value: str, settings: Settings, question: str) -> dict[str, Any]:
    """Answer a checked question in a worker process, where it can do no harm; all that goes in and out can be pickled.

    Args:
        name: of the backend.
        value: its entry point, ``package.module:Class``.
        settings: the same at every call.
        question: JSON.

    Raises:
        ValueError: the question has no answer, in one sentence.
        TypeError: the backend answered something else than its own Answer.
    """
    backend = _ready.get(value)
    if backend is None:
        backend = _ready[value] = backend_class(name, value)(settings)
    request: Any = body(type(backend)).model_validate_json(question)
    try:
        if isinstance(request, Body) and issubclass(backend.Question, Question):
            request = backend.Question.of_body(request, getattr(backend, "models", {}))
        answer = backend.answer(request)
    except ValidationError as error:  # a ValueError, but none that its asker could mend
        raise TypeError(f"the answer of the backend {name} does not fit its own model: {error}") from error
    if not isinstance(answer, backend.Answer):
        raise TypeError(f"the backend {name} answered a {type(answer).__name__}, not its {backend.Answer.__name__}")
    as_json: dict[str, Any] = answer.model_dump(mode="json")
    return as_json
