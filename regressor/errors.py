"""The one exception for bad input from a user."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class InputError(ValueError):
    """Bad input; the message is one sentence that says what, the value seen and the remedy."""


def describe(error: ValidationError, what: str, known: Collection[str]) -> str:
    """What is wrong with the first wrong key of ``what``, or which of the ``known`` keys it lacks."""
    errors = error.errors(include_url=False)
    if missing := [str(each["loc"][0]) for each in errors if each["type"] == "missing"]:
        return f"{what} lacks {', '.join(missing)}"
    first = errors[0]
    if not first["loc"]:
        return str(first["ctx"]["error"])
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    if first["type"] == "unexpected_keyword_argument":
        close = get_close_matches(key, known, n=1)
        return f"{what} has an unknown key {key!r}; {f'did you mean {close[0]!r}?' if close else 'remove it'}"
    said = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"][:1].lower() + first["msg"][1:]
    return f"{what}: {key} is {first['input']!r:.60}; {said}"
