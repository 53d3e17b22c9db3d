"""Groups of commands: they name the nearest command where there is none of a name, and import only the one that is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from epochcast.analyzer.plugins import GROUP as BACKENDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Group(click.Group):
    """A group that answers a mistyped command with the one that was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """See click, whose own suggestion does not know commands that are loaded when they are called."""
        name = args[0]
        if not (name.startswith("-") or ctx.resilient_parsing) and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"see {ctx.command_path} --help"
            ctx.fail(f"unknown command {name!r}; {remedy}")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands are imported when they are called.

    Every command is the function of its name (a dash as an underscore) in the file of its name in ``package``. ``summaries``
    has a line on each, in the order of the help, so that it need not import them all: `epochcast record` must not wait for
    scikit-learn, nor `epochcast predict-model --help` for the backends.
    """

    def __init__(self, package: str, summaries: Mapping[str, str], **of_click: Any) -> None:
        super().__init__(**of_click)
        self._package, self._summaries = package, summaries

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


class PluginGroup(LazyGroup):
    """A group with a command for each entry point of a group of those, of ours and of other packages.

    ``summaries`` has a line on each of ours. What is no entry point is a file of ``package``, as in every :class:`LazyGroup`.
    """

    def __init__(self, entry_points: str, **of_group: Any) -> None:
        super().__init__(**of_group)
        self._entry_points = entry_points

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours first."""
        return [*self._summaries, *self._others()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an entry point, imported; None if there is none of this name."""
        point = next((point for point in self._points() if point.name == cmd_name), None)
        if point is None or (_is_ours(point) and cmd_name not in self._summaries):
            return super().get_command(ctx, cmd_name)
        from epochcast.analyzer.cli.backend_command import backend_command
        from epochcast.analyzer.plugins.registry import backend_class

        return backend_command(backend_class(point.name, point.value), predicts=self._entry_points == BACKENDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries into the help; of other packages whose they are, for they would have to be imported."""
        with formatter.section("Commands"):
            formatter.write_dl([*self._summaries.items(), *self._others().items()])

    def _points(self) -> list[EntryPoint]:
        """Entry points, ours first."""
        from importlib.metadata import entry_points

        return sorted(entry_points(group=self._entry_points), key=lambda point: not _is_ours(point))

    def _others(self) -> dict[str, str]:
        """Commands of other packages, and whose they are, by name."""
        points = sorted((point for point in self._points() if not _is_ours(point)), key=lambda point: point.name)
        return {
            point.name: f"Of {point.dist.name if point.dist else point.value}."
            for point in points
            if point.name not in self._summaries
        }


def _is_ours(point: EntryPoint) -> bool:
    return point.value.startswith("epochcast.")
