"""Every `epochcast …` that a page shows, in a block or in its text, run or not, is a command that exists, as do its options."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from epochcast.agent.cli import build_parser as agent_parser
from epochcast.analyzer.cli import cli
from epochcast.analyzer.node.cli import _parser as node_parser

from ..pages import ROOT, blocks, line_at, pages

_INLINE = re.compile(r"`(epochcast(?:-agent)? [^`\n]+)`")


def problems(command: str) -> Iterator[str]:
    """What of a command does not exist: a subcommand or an option. ``a|b`` stands for either, an ellipsis for the rest."""
    words = shlex.split(command.replace("…", " … "), comments=True)
    program = Path(words[0]).name
    if program == "epochcast-agent":
        yield from _of_parser(agent_parser(), words[1:], command)
    elif words[1:2] == ["serve"] and "--node" in words:
        yield from _of_parser(node_parser(), words[2:], command)
    elif program == "epochcast":
        yield from _of_click(cli, words[1:], command)


def _of_click(command: click.Command, words: list[str], whole: str) -> Iterator[str]:
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0] == "…" or words[0].isupper():  # any of them
            return
        with click.Context(command) as context:
            for name in words[0].rstrip(",:;").split("|"):
                inner = command.get_command(context, name)
                if inner is None:
                    yield f"{whole!r}: there is no {name!r}"
                else:
                    yield from _of_click(inner, words[1:], whole)
        return
    known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
    yield from _unknown(words, known | {"--help", "-h", "--version"}, whole)


def _of_parser(parser: argparse.ArgumentParser, words: list[str], whole: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word in words:
                if word in action.choices:
                    before, after = words[: words.index(word)], words[words.index(word) + 1 :]
                    yield from _of_parser(action.choices[word], after, whole)
                    words = before
                    break
    yield from _unknown(words, set(parser._option_string_actions), whole)


def _unknown(words: list[str], known: set[str], whole: str) -> Iterator[str]:
    for word in words:
        if word == "--" or word in ("|", ">", "&&", "||"):
            return
        if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known:
            yield f"{whole!r}: there is no option {word}"


def test_commands_in_blocks_exist() -> None:
    ours = [
        (block.where, command)
        for block in blocks()
        if block.is_commands
        for command in block.commands
        if re.match(r"\S*epochcast(-agent)? ", command)
    ]
    assert len(ours) > 50
    wrong = [f"{where}: {problem}" for where, command in ours for problem in problems(command)]
    assert not wrong, "\n".join(wrong)


def test_commands_in_the_text_exist() -> None:
    ours = [
        (f"{page.relative_to(ROOT)}:{line_at(text, command.start())}", command[1])
        for page in pages()
        if page.name != "CHANGELOG.md"  # it names what is gone
        for text in [page.read_text(encoding="utf-8").replace("\\|", "|")]
        for command in _INLINE.finditer(text)
    ]
    assert len(ours) > 50
    wrong = [f"{where}: {problem}" for where, command in ours for problem in problems(command)]
    assert not wrong, "\n".join(wrong)
