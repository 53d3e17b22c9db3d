"""Text as wide as the terminal. What goes into a file or a pipe keeps its lines, so that other programs can read it."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable

import click

from epochcast.analyzer.cli import progress
from epochcast.analyzer.tables import width
from epochcast.analyzer.words import plain

# Between a number and its unit: no line ends there.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|days|[kMG]?J|W|[MG]iB|GPUs?)(?![\w/]))")


def say(text: str, *, err: bool = False, as_is: bool = False) -> None:
    """Print ``text``; on a terminal a line that is too long goes on below, indented, unless ``as_is`` (JSON)."""
    if as_is:
        click.echo(text, err=err)
        return
    columns = width(sys.stderr if err else sys.stdout)
    wrapped = text if columns is None else "\n".join(_wrapped(line, columns) for line in text.split("\n"))
    click.echo(plain(wrapped), err=err)


def note(sentence: str) -> None:
    """Say on standard error what the reader of an answer has to know about it."""
    progress.clear()
    say(f"epochcast: {sentence}", err=True)


def notes(sentences: Iterable[str]) -> None:
    """`note` each of them, below the answer."""
    sys.stdout.flush()
    for sentence in sentences:
        note(sentence)


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    line = _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", line)
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.strip(),
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,  # paths and commands are copied
        break_on_hyphens=False,
    )
