"""The option ``--method``, whose old name in `evaluate`, ``--recipe``, works, is not in the help, and says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])

_OLD = "epochcast--recipe"


def _keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[_OLD] = value


def _chosen(context: click.Context, _: click.Parameter, value: str) -> str:
    if _OLD not in context.meta:
        return value
    if context.get_parameter_source("method") is click.core.ParameterSource.COMMANDLINE:
        raise InputError("--recipe is the old name of --method; give --method alone")
    terminal.note("--recipe is now --method; the old name still works")
    return str(context.meta[_OLD])


def method_option(methods: list[str], meaning: str) -> Callable[[Command], Command]:
    """How epochs are looked for, as ``method``; `evaluate` called it its recipe, and a last one ``all`` compares the others."""
    *others, last = methods
    end = f"{last} (compares them)" if last == "all" else last
    # So many that the help lists them in the text: their column has no room.
    choice: dict[str, Any] = {"type": click.Choice(methods), "metavar": "NAME"}
    choice["help"] = f"{meaning.rstrip('.')}: {', '.join(others)} or {end}."
    # Eager, so that it is read before the option that takes its value over.
    old = click.option(
        "--recipe",
        type=choice["type"],
        hidden=True,
        help="Old name of --method.",
        expose_value=False,
        is_eager=True,
        callback=_keep,
    )
    shown = click.option("--method", "method", callback=_chosen, default="track", show_default=True, **choice)
    return lambda command: shown(old(command))
