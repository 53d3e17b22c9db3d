"""Options that had another name in one command or the other: the old name works, is not in the help, and says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..errors import InputError
from . import terminal
from .choices import one_of_many

Command = TypeVar("Command", bound=Callable[..., Any])


def option_with_old_name(
    name: str,
    parameter: str,
    old: str,
    old_type: click.ParamType[Any],
    read_old: Callable[[Any], Any] = lambda value: value,
    **of_click: Any,
) -> Callable[[Command], Command]:
    """Add option ``name`` as ``parameter``, and hidden ``old``, whose value ``read_old`` turns into the new one's."""
    place = f"epochcast{old}"

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.meta[place] = read_old(value)

    def chosen(context: click.Context, _: click.Parameter, value: Any) -> Any:
        if place not in context.meta:
            return value
        if context.get_parameter_source(parameter) is click.core.ParameterSource.COMMANDLINE:
            raise InputError(f"{old} is the old name of {name}; give {name} alone")
        terminal.note(f"{old} is now {name}; the old name still works")
        return context.meta[place]

    # Eager, so that it is read before the option that takes its value over.
    hidden = click.option(
        old, type=old_type, hidden=True, help=f"Old name of {name}.", expose_value=False, is_eager=True, callback=keep
    )
    shown = click.option(name, parameter, callback=chosen, **of_click)
    return lambda command: shown(hidden(command))


spot_option = option_with_old_name(
    "--spot",
    "spot",
    "--market",
    click.Choice(["on-demand", "spot"]),
    lambda market: market == "spot",
    is_flag=True,
    help="Pay spot prices; instances without one are left out.",
)


def method_option(methods: list[str], meaning: str) -> Callable[[Command], Command]:
    """How epochs are looked for, as ``method``; `evaluate` called it its recipe."""
    asked = one_of_many(methods, meaning.rstrip("."))
    return option_with_old_name("--method", "method", "--recipe", asked["type"], default="track", show_default=True, **asked)
