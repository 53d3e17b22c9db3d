"""Help: it fits a terminal and shows an example; groups print theirs, and know what a mistyped command was meant to be."""

import click
import pytest

from epochcast.analyzer.cli import main

from .all_commands import commands

ALL = [pytest.param(path, command, id=" ".join(("epochcast", *path))) for path, command in commands()]
GROUPS = [one for one in ALL if isinstance(one.values[1], click.Group)]


@pytest.mark.parametrize(("path", "command"), ALL)
def test_help_fits_a_terminal_and_has_an_example(path: tuple[str, ...], command: click.Command) -> None:
    words = " ".join(("epochcast", *path))
    lines = command.get_help(click.Context(command, info_name=words, terminal_width=80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "[default: (" not in " ".join(" ".join(lines).split()), "a default as it is typed"
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage:")], "no summary is cut"
    assert isinstance(command, click.Group) or f"Example: {words}" in " ".join(" ".join(lines).split())


def test_the_groups_are_found() -> None:
    assert len(GROUPS) >= 5


@pytest.mark.parametrize(("path", "group"), GROUPS)
def test_a_group_without_a_command_prints_its_help_and_knows_what_a_mistyped_one_was_meant_to_be(
    path: tuple[str, ...], group: click.Group, capsys: pytest.CaptureFixture[str]
) -> None:
    names = group.list_commands(click.Context(group))
    assert main(path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith(" ".join(("Usage: epochcast", *path)))
    shown = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :] if line.startswith("  ") and line[2] != " "]
    assert shown == names
    assert main([*path, names[-1][:-2] + names[-1][-1]]) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith(f"did you mean {names[-1]!r}?\n")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recomend", "run.parquet"], "unknown command 'recomend'; did you mean 'recommend'?"),
        (["fit", "xyz"], "unknown command 'xyz'; choose from convmeter, regressor (epochcast fit --help)"),
    ],
)
def test_what_is_no_command(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"epochcast: {says}\n"
