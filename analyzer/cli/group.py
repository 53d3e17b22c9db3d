"""Groups of commands: they name the nearest command where there is none of a name, and import only the one that is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click

from . import terminal


class Group(click.Group):
    """A group that answers a mistyped command with the one that was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """See click, whose own suggestion does not know commands that are loaded when they are called."""
        name = args[0]
        if not (name.startswith("-") or ctx.resilient_parsing) and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"see {ctx.command_path} --help"
            ctx.fail(f"there is no command {name!r}; {remedy}")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands are imported when they are called.

    Every command is the function of its name (a dash as an underscore) in the file of its name in ``package``. ``summaries``
    has a line on each, in the order of the help, so that it need not import them all: `epochcast record` must not wait for
    scikit-learn, nor `epochcast predict-model --help` for the backends. ``old_names``: of commands that have another name now;
    they work, and say so.
    """

    def __init__(
        self, package: str, summaries: Mapping[str, str], old_names: Mapping[str, str] | None = None, **of_click: Any
    ) -> None:
        super().__init__(**of_click)
        self._package, self._summaries, self._old_names = package, summaries, old_names or {}

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Take an old name for the new one."""
        if name := self._old_names.get(args[0]):
            terminal.note(f"`{ctx.command_path} {args[0]}` is now `{ctx.command_path} {name}`; the old name still works")
            args = [name, *args[1:]]
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, as the help has them."""
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported; None if there is none of this name."""
        if cmd_name not in self._summaries:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f".{name}", self._package), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
