"""What the commands that evaluate share: which rows, several recipes on the same ones, and JSON or text of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ....regressor import InputError as RegressorInputError
from ...errors import InputError
from ...evaluation.report import Line
from ...plain_json import plain_json
from .. import progress, terminal

PATH = click.Path(path_type=Path)
ALL = "all"
"""The name for every recipe."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Answer = TypeVar("_Answer")


def rows_options(rows: str, metavar: str = "CSV") -> Callable[[_Command], _Command]:
    """Options ``--data``, ``--train`` and ``--test``: one table that the protocol splits, or what is fitted on and tested."""

    def decorate(command: _Command) -> _Command:
        for name, use in (
            ("--test", "to test on, with --train"),
            ("--train", "to fit on, with --test"),
            ("--data", "that the protocol splits"),
        ):
            text = f"{rows} {use} (repeatable)."
            command = click.option(name, type=PATH, multiple=True, metavar=metavar, help=text)(command)
        return command

    return decorate


def check_rows(data: Sequence[Path], train: Sequence[Path], test: Sequence[Path], **splitting: object) -> None:
    """Check that either one table or two are given.

    Args:
        data, train, test: of :func:`rows_options`.
        splitting: options that say how one table is split, by name; None where they are not given.

    Raises:
        InputError: neither or both are given, or two tables and an option that splits one.
    """
    if bool(data) == bool(train) or bool(train) != bool(test):
        raise InputError("give either --data or both --train and --test")
    if train and (superfluous := [f"--{name}" for name, value in splitting.items() if value is not None]):
        raise InputError(f"{' and '.join(superfluous)} splits one table; with --train and --test leave it out")


def each_recipe(
    recipe: str, every: Sequence[str], baselines: Sequence[str], measure: Callable[[str], _Answer]
) -> dict[str, _Answer]:
    """What the recipe and its baselines answer, or all recipes; one that cannot is left out with a note.

    Args:
        recipe: the subject, or ``all``.
        every: names of all recipes.
        baselines: those that a single recipe is compared with.
        measure: fits and predicts by the recipe of this name.

    Raises:
        InputError: the subject cannot answer, or none of all.
    """
    answers: dict[str, _Answer] = {}
    errors: list[Exception] = []
    for name in every if recipe == ALL else [recipe, *(other for other in baselines if other != recipe)]:
        try:
            answers[name] = measure(name)
        except (InputError, RegressorInputError) as error:  # a library is missing, or it asks more of the rows than others do
            if name == recipe:
                raise
            errors.append(error)
            terminal.note(f"{name} is left out: {error}")
    progress.clear()
    if not answers:
        raise errors[0]
    return answers


def say_figures(
    recipe: str, figures: Mapping[str, dict[str, Any]], as_json: bool, text: Callable[[Sequence[Line], bool], str]
) -> None:
    """Print figures by recipe: of the subject with the others as its ``baselines``, or a list of all.

    Args:
        recipe: the subject, which comes first in ``figures``, or ``all``.
        figures: answers by recipe, as they become JSON.
        as_json: whether to print JSON.
        text: of the answers, and whether the first is to be shown in detail.
    """
    if not as_json:
        terminal.say(text(list(figures.values()), recipe != ALL))
        return
    listed = list(figures.values())
    others = {name: line for name, line in figures.items() if name != recipe}
    terminal.say(plain_json(listed if recipe == ALL else figures[recipe] | {"baselines": others}), as_is=True)
