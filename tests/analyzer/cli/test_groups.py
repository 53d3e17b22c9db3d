"""Groups of commands: their help where no command is given, and the command that a mistyped one was meant to be."""

from collections.abc import Iterator

import click
import pytest

from epochcast.analyzer.cli import cli, main


def _groups(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        if isinstance(inner, click.Group):
            yield from _groups(inner, (*path, name))


GROUPS = [pytest.param(path, group, id=" ".join(("epochcast", *path))) for path, group in _groups(cli)]


def test_the_groups_are_found() -> None:
    assert len(GROUPS) >= 9


@pytest.mark.parametrize(("path", "group"), GROUPS)
def test_a_group_without_a_command_prints_its_help(
    path: tuple[str, ...], group: click.Group, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith(" ".join(("Usage: epochcast", *path)))
    names = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if line.startswith("  ") and line[2] != " "]
    assert names == group.list_commands(click.Context(group))


@pytest.mark.parametrize(("path", "group"), GROUPS)
def test_a_mistyped_command_is_answered_with_the_right_one(
    path: tuple[str, ...], group: click.Group, capsys: pytest.CaptureFixture[str]
) -> None:
    name = group.list_commands(click.Context(group))[-1]
    assert main([*path, name[:-2] + name[-1]]) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith(f"did you mean {name!r}?\n")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_the_nearest_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recomend", "run.parquet"]) == 2
    assert capsys.readouterr().err == "epochcast: there is no command 'recomend'; did you mean 'recommend'?\n"


def test_what_is_near_no_command_is_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "xyz"]) == 2
    assert capsys.readouterr().err == "epochcast: there is no command 'xyz'; see epochcast train --help\n"
