"""Every command and option has a help that is a phrase of its own, no fragment that only the option's name completes."""

from collections.abc import Iterator

import click
import pytest

from epochcast.analyzer.cli import cli

FRAGMENTS = ("Of ", "That ", "To ", "From ", "In ", "…", "[default", "Repeatable")


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), list(_commands(cli, "epochcast")))
def test_every_command_and_option_has_a_help(path: str, command: click.Command) -> None:
    assert command.help, path
    for option in command.params:
        if isinstance(option, click.Option):
            text = option.help or ""
            assert text and not text.startswith(FRAGMENTS), f"{path} {option.opts[0]}: {text!r}"
            assert text.partition(" [default:")[0].endswith((".", ")")), f"{path} {option.opts[0]}: {text!r}"
            assert text[0].isupper(), f"{path} {option.opts[0]}: {text!r}"
