"""Recipes on the same rows: which rows are asked, and the error figures of each recipe."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from epochcast.analyzer.errors import InputError
from lab.commands import REFUSALS, Nothing, note
from lab.evaluate.common.held_out import FiguresT, HeldOut

ALL = "all"
"""The name for every recipe."""

_MeasuredT = TypeVar("_MeasuredT")


def rows_options(parser: argparse.ArgumentParser, tables: str) -> None:
    """One table that the protocol splits, or what is fitted on and what is tested."""
    for name, use in (("data", "that the protocol splits"), ("train", "to fit on"), ("test", "to test on")):
        parser.add_argument(f"--{name}", type=Path, action="append", default=[], help=f"{tables} {use} (repeatable)")


def check_rows(asked: argparse.Namespace, *splitting: str) -> None:
    """Refuse none and several to fit on, and options that say how one table is split where another is tested."""
    fitted = [name for name in ("data", "train", "shipped") if getattr(asked, name, None)]
    if len(fitted) != 1 or (fitted == ["data"]) == bool(asked.test):
        raise InputError(f"give either --data or both --train{' (or --shipped)' if 'shipped' in asked else ''} and --test")
    if asked.test and (superfluous := [f"--{name}" for name in splitting if getattr(asked, name) is not None]):
        raise InputError(f"{' and '.join(superfluous)} splits one table; leave it out with --test")


def held_out_figures(rows: HeldOut[FiguresT], by: Mapping[str, Mapping[str, FiguresT]], lacking: int = 0) -> dict[str, Any]:
    """Figures of tested rows, overall and by group; ``lacking`` others should have been tested, and count as unanswered."""
    scores = rows.figures
    return {
        **asdict(replace(scores, coverage=scores.n / (len(rows.points) + lacking))),
        "spread": rows.spread,
        "unanswered": rows.reason,
        "by": {key: {name: asdict(own) for name, own in groups.items()} for key, groups in by.items()},
    }


def each_recipe(
    subject: str, every: Sequence[str], baselines: Iterable[str], measure: Callable[[str], _MeasuredT]
) -> dict[str, _MeasuredT]:
    """What the subject and its baselines answer, or all recipes by ``measure``; one that cannot is left out with a note.

    Raises:
        InputError: the subject cannot answer, or none of ``every`` recipe.
    """
    answers: dict[str, _MeasuredT] = {}
    errors: list[Exception] = []
    for name in every if subject == ALL else dict.fromkeys([subject, *baselines]):
        try:
            answers[name] = measure(name)
        except REFUSALS as error:  # a library is missing, or it asks more of the rows than others do
            if name == subject:
                raise
            errors.append(error)
            note(f"{name} is skipped: {error}")
    if not answers:
        raise errors[0]
    return answers


def compared(subject: str, figures: Mapping[str, Mapping[str, Any]], **common: Any) -> dict[str, Any] | list[dict[str, Any]]:
    """The subject's figures before its ``baselines``, or a list of all; ``common`` ones, of the rows, are in each."""
    each: dict[str, dict[str, Any]] = {name: {"recipe": name, **common, **own} for name, own in figures.items()}
    if subject == ALL:
        return [one if one["n"] else Nothing(one) for one in each.values()]
    answer = each.pop(subject) | {"baselines": each}
    return answer if answer["n"] else Nothing(answer)
