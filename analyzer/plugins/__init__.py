"""What all predictors share: a question and an answer, each declared once, and how they are found.

A backend is any class that has what `Backend` has, registered as an entry point of the group ``epochcast.backends``: ours lie
in ``analyzer/backends/NAME/backend.py``, third parties register theirs the same way (``docs/how-to/add-a-predictor.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel

GROUP = "epochcast.backends"
"""Entry points of what predicts; those of ``epochcast.fit`` name classes with the same parts, which are commands alone."""


def is_ours(point: EntryPoint) -> bool:
    """Whether an entry point is of this package; ours come before others of the same name."""
    return point.value.startswith("epochcast.")


@dataclass(frozen=True)
class Settings:
    """What the service's configuration says to a backend; it goes to worker processes, so it must be picklable.

    Attributes:
        gpus: TOML file with the operator's own GPUs.
        prices: the operator's own price table (CSV); None: ours.
        model: folder of the latency predictor (``epochcast fit regressor``); None: the one that is shipped.
        own: the table ``[backends.NAME]``, which the backend alone understands.
        progress: shows in a few words how far long work is; None: nobody looks.
        notes: shows at once, before an answer or a refusal, what a reader has to know; None: nobody looks.
    """

    gpus: Path | None = None
    prices: Path | None = None
    model: Path | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[str], object] | None = None
    notes: Callable[[str], object] | None = None

    def report(self, text: str) -> None:
        """Say how far long work is."""
        if self.progress is not None:
            self.progress(text)

    def note(self, sentence: str) -> None:
        """Say what a reader has to know."""
        if self.notes is not None:
            self.notes(sentence)


class Backend(Protocol):
    """One way to predict.

    Attributes:
        name: in the path ``/api/v1/backends/NAME``: lower-case letters, digits and dashes; the same as the entry point's.
        summary: one sentence.
        Question: what it is asked, a :class:`.question.Question`: options of its command and the schema of its requests come
            from its fields. (A plain pydantic model is a request's body alone: such a backend has no command.)
        Answer: what it answers, an :class:`.answer.Answer`.

    It may have ``manual``, the text of its command's help, ``models``, folders of fitted models by name, and flags, False where
    the setting means nothing to it: ``configurable`` for the table ``[backends.NAME]``, ``reads_catalog`` for the user's GPUs.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Question: ClassVar[type[BaseModel]]
    Answer: ClassVar[type[BaseModel]]

    def __init__(self, settings: Settings) -> None:
        """Take the settings; nothing heavy happens here.

        Raises:
            ValueError: the backend cannot be used with them, or something that it needs is missing; the message is one
                sentence with the remedy, which is shown at ``/api/v1/backends``.
        """
        ...

    def answer(self, question: Any) -> BaseModel:
        """Answer a checked question.

        Runs in a worker process of the service, which is ended when it takes longer than the service allows; anything
        heavy is imported here, not with the module. One backend object answers many questions, one after another.

        Raises:
            ValueError: the question has no answer; the message is one sentence for the user (status 422).
        """
        ...


class Plugin(Backend):
    """A backend of ours, or what fits for one: it keeps the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
