"""Options with so many choices that the help lists them in the text: their column has no room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

_ALL = "all"


def one_of_many(names: Sequence[str], meaning: str) -> dict[str, Any]:
    """What click's ``option`` takes for a choice among ``names``; a last one ``all`` compares the others."""
    *others, last = names
    end = f"{last} (compares them)" if last == _ALL else last
    return {"type": click.Choice(names), "metavar": "NAME", "help": f"{meaning}: {', '.join(others)} or {end}."}
