"""Text as wide as the terminal. What goes into a file or a pipe keeps its lines, so that other programs can read it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from epochcast.analyzer.cli import progress
from epochcast.analyzer.tables import width
from epochcast.analyzer.words import plain


def say(text: str, *, err: bool = False) -> None:
    """Print ``text``; on a terminal a line that is too long goes on below at a space."""
    columns = width(sys.stderr if err else sys.stdout)
    if columns is None:
        click.echo(plain(text), err=err)
        return
    from rich.console import Console  # a tenth of a second, which a pipe does not need

    Console(stderr=err, width=columns, markup=False, highlight=False, emoji=False).print(plain(text))


def note(sentence: str) -> None:
    """Say on standard error what the reader of an answer has to know about it."""
    progress.clear()
    say(f"epochcast: {sentence}", err=True)


def notes(sentences: Iterable[str]) -> None:
    """`note` each of them, below the answer."""
    sys.stdout.flush()
    for sentence in sentences:
        note(sentence)
