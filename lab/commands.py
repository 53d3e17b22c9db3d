"""Commands of the workshop, ``python -m lab.evaluate NAME …``: a dictionary names them, and only the one called is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from epochcast.analyzer.cli import main
from epochcast.analyzer.cli.backend_command import backend_command
from epochcast.analyzer.cli.group import Group


class Commands(Group):
    """A group of commands by name, each given as ``module:attribute``: a click command, or a class made like a backend."""

    def __init__(self, commands: Mapping[str, str], **of_click: Any) -> None:
        super().__init__(**of_click)
        self._commands = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, as the help has them."""
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported; None if there is none of this name."""
        if cmd_name not in self._commands:
            return None
        module, _, name = self._commands[cmd_name].partition(":")
        found = getattr(importlib.import_module(module), name)
        return found if isinstance(found, click.Command) else backend_command(found, predicts=False)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, f"See {ctx.command_path} {name} --help.") for name in self._commands])


def run(command: click.Command, name: str, arguments: list[str] | None = None) -> int:
    """Run a command as ``epochcast`` runs its own: bad input is one sentence on stderr and exit code 2."""
    return main(arguments, command, f"python -m {name}")
