"""A question put to a backend where it can do no harm: in a worker process."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from . import Backend, Settings
from .registry import backend_class

_ready: dict[str, Backend] = {}
"""Backends of this process by entry point: what one has loaded serves its next question."""


def ask(name: str, value: str, settings: Settings, question: str) -> dict[str, Any]:
    """Answer a question that was checked by the backend's model; all that goes in and out can be pickled.

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
    asked = backend.Question.model_validate_json(question)
    try:
        answer = backend.answer(asked)
    except ValidationError as error:  # a ValueError, but none that its asker could mend
        raise TypeError(f"the answer of the backend {name} does not fit its own model: {error}") from error
    if not isinstance(answer, backend.Answer):
        raise TypeError(f"the backend {name} answered a {type(answer).__name__}, not its {backend.Answer.__name__}")
    told: dict[str, Any] = answer.model_dump(mode="json")
    return told
