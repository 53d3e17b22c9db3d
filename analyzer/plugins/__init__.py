"""Backends of the service: each answers one kind of question, checked by its own schema. One file per built-in backend.

A backend is anything that has the attributes of `Backend`, registered as an entry point of the group ``epochcast.backends``;
third parties register theirs the same way (``docs/backends.md``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

GROUP = "epochcast.backends"


class Backend(Protocol):
    """One way to predict.

    Attributes:
        name: in the path ``/api/v1/backends/NAME``: lower-case letters, digits and dashes.
        summary: one sentence.
        Question: model of the request's body; its JSON schema is told at ``/api/v1/backends``, its examples are in OpenAPI.
        Answer: model of the answer.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Question: ClassVar[type[BaseModel]]
    Answer: ClassVar[type[BaseModel]]

    def answer(self, question: Any) -> BaseModel:
        """Answer a checked question.

        Runs in a worker process of the service, which is ended when it takes longer than the service allows; whatever is
        heavy is imported here, not with the module.

        Raises:
            ValueError: the question has no answer; the message is one sentence for the user (status 422).
        """
        ...
