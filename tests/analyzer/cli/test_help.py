"""The help of every command fits a terminal of 80 columns, and no summary of a command is cut."""

from collections.abc import Iterator

import click
import pytest

from epochcast.analyzer.cli import cli


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None and not inner.hidden:
                    yield from _commands(inner, (*path, name))


@pytest.mark.parametrize("path", list(_commands(cli)), ids=lambda path: " ".join(path) or "epochcast")
def test_help_fits_a_terminal(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    context = click.Context(cli, info_name="epochcast", terminal_width=80)
    for name in path:
        assert isinstance(command, click.Group)
        inner = command.get_command(context, name)
        assert inner is not None
        command, context = inner, click.Context(inner, parent=context, info_name=name, terminal_width=80)
    lines = command.get_help(context).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage:")]
