"""Groups of commands: they name the nearest command where there is none of a name, and import only the one that is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from epochcast.analyzer.plugins import GROUP as BACKENDS
from epochcast.analyzer.plugins import is_ours

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Group(click.Group):
    """A group that answers a mistyped command with the one that was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """See click, whose own suggestion does not know commands that are loaded when they are called."""
        name = args[0]
        if not (name.startswith("-") or ctx.resilient_parsing) and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            choices = ", ".join(self.list_commands(ctx))
            remedy = f"did you mean {near[0]!r}?" if near else f"choose from {choices} ({ctx.command_path} --help)"
            ctx.fail(f"unknown command {name!r}; {remedy}")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands are imported when they are called.

    Every command is the function of its name (a dash as an underscore) in the file of its name in ``package``, or, of a group
    of ``entry_points``, what asks the class that one of those names, of ours and of other packages. ``summaries`` has a line
    on each of ours, in the order of the help, so that it need not import them all: `epochcast record` must not wait for
    scikit-learn, nor `epochcast predict-model --help` for the backends.
    """

    def __init__(self, summaries: Mapping[str, str], package: str = "", entry_points: str = "", **of_click: Any) -> None:
        super().__init__(**of_click)
        self._summaries, self._package, self._entry_points = summaries, package, entry_points

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, as the help has them."""
        return list(self._lines())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported; None if there is none of this name."""
        if cmd_name not in self._lines():
            return None
        if self._entry_points:
            from epochcast.analyzer.cli.backend_command import backend_command
            from epochcast.analyzer.plugins.registry import backend_class

            point = next((point for point in self._points() if point.name == cmd_name), None)
            if point is None:
                return None
            return backend_command(backend_class(point.name, point.value), predicts=self._entry_points == BACKENDS)
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"{self._package}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line on each into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines().items()))

    def _lines(self) -> dict[str, str]:
        """By command, ours first; of other packages whose they are, for they would have to be imported."""
        others = {point.name: f"Of {point.dist.name if point.dist else point.value}." for point in self._points()}
        ours = {point.name for point in self._points() if is_ours(point)}
        return {**self._summaries, **{name: line for name, line in sorted(others.items()) if name not in ours}}

    def _points(self) -> list[EntryPoint]:
        """Entry points, ours first."""
        if not self._entry_points:
            return []
        from importlib.metadata import entry_points

        return sorted(entry_points(group=self._entry_points), key=lambda point: not is_ours(point))
