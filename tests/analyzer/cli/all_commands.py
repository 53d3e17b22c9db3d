"""Every command and group of ``epochcast``."""

from collections.abc import Iterator

import click

from epochcast.analyzer.cli import cli


def commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each with the words after ``epochcast`` that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))
