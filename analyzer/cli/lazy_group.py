"""A group of commands, one file each, of which only the one that is called is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from .group import Group


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
