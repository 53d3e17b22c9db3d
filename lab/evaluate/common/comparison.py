"""Recipes on the same rows: the question says which rows, the answer has the error figures of each recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Settings
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.regressor import InputError as RegressorInputError
from lab.evaluate.common.held_out import FiguresT, HeldOut
from lab.evaluate.common.report import Columns, Line, lines, paragraphs, tables_of_groups

ALL = "all"
"""The name for every recipe."""

_MeasuredT = TypeVar("_MeasuredT")


class RowsQuestion(Question):
    """One table that the protocol splits, or what is fitted on and what is tested."""

    tables: ClassVar[str]
    """What they hold, for the help."""
    metavar: ClassVar[str] = "CSV"
    splitting: ClassVar[Sequence[str]] = ("protocol",)
    """Fields that say how one table is split; None where they are not set."""

    data: list[Path] = Field([], description="that the protocol splits")
    train: list[Path] = Field([], description="to fit on, with --test")
    test: list[Path] = Field([], description="to test on, with --train")

    @classmethod
    def __pydantic_init_subclass__(cls, **of_pydantic: Any) -> None:
        """Name the tables in the help."""
        for name in ("data", "train", "test"):
            field = cls.model_fields[name]
            field.description, field.metadata = f"{cls.tables} {field.description}", [Option(metavar=cls.metavar)]

    @model_validator(mode="after")
    def _one_table_or_two(self) -> Self:
        if bool(self.data) == bool(self.train) or bool(self.train) != bool(self.test):
            raise ValueError("give either --data or both --train and --test")
        if self.train and (superfluous := [f"--{name}" for name in self.splitting if getattr(self, name) is not None]):
            raise ValueError(f"{' and '.join(superfluous)} splits one table; leave it out with --train and --test")
        return self


class RecipeFigures(AnswerPart, Generic[FiguresT]):
    """How well a recipe predicts the rows: scores over all rows, which the JSON has besides the fields of a subclass."""

    scores: FiguresT

    @model_serializer(mode="wrap")
    def _flat(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        flat: dict[str, Any] = fields(self)
        return {**flat.pop("scores"), **flat}


class HeldOutFigures(RecipeFigures[FiguresT], Generic[FiguresT]):
    """Those of a :class:`.held_out.HeldOut`, whose ``reason`` is ``unanswered``; by what its rows are grouped by."""

    spread: float
    unanswered: str
    by: dict[str, dict[str, FiguresT]]

    @classmethod
    def of(cls, rows: HeldOut[FiguresT], by: dict[str, dict[str, FiguresT]], lacking: int = 0, **of_class: Any) -> Self:
        """Those of tested rows; ``lacking`` others should have been tested, and count as unanswered."""
        scores = rows.figures
        scores = replace(scores, coverage=scores.n / (len(rows.points) + lacking))
        return cls(scores=scores, spread=rows.spread, unanswered=rows.reason, by=by, **of_class)


_FiguresT = TypeVar("_FiguresT", bound=AnswerPart)


class Comparison(Answer, Generic[_FiguresT]):
    """A recipe (``subject``) before its baselines, or ``all``; the JSON repeats other fields, of the rows, for each recipe."""

    subject: str
    figures: dict[str, _FiguresT]

    @model_serializer(mode="wrap")
    def _of_each_recipe(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any] | list[dict[str, Any]]:
        common = fields(self)
        subject, figures = common.pop("subject"), common.pop("figures")
        each = {name: {"recipe": name, **common, **own} for name, own in figures.items()}
        return list(each.values()) if subject == ALL else each.pop(subject) | {"baselines": each}

    def report(
        self,
        heading: str,
        recipes: Columns,
        groups: Columns,
        by: Mapping[str, Mapping[str, Line]] | None = None,
        legend: str = "",
        beside: Iterable[str] = (),
    ) -> str:
        """A table of the recipes with columns ``recipes``, and of groups of the subject, unless all are only compared.

        ``by`` has figures of groups (None: the subject's own); ``legend`` is said below the first table, ``next to`` after it.
        """
        figures: dict[str, Line] = {name: own.model_dump() for name, own in self.figures.items()}
        compared = lines("recipe", recipes, figures.items())
        parts = [heading, f"{compared}\n{legend}" if legend else compared, *beside]
        if self.subject != ALL:
            subject = figures[self.subject]
            parts.append(f"without an answer: {subject['unanswered']}" if subject.get("unanswered") else "")
            parts += tables_of_groups(subject["by"] if by is None else by, groups)
        return paragraphs(*parts)


def each_recipe(
    subject: str, every: Sequence[str], baselines: Iterable[str], measure: Callable[[str], _MeasuredT], settings: Settings
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
        except (InputError, RegressorInputError) as error:  # a library is missing, or it asks more of the rows than others do
            if name == subject:
                raise
            errors.append(error)
            settings.note(f"{name} is skipped: {error}")
    if not answers:
        raise errors[0]
    return answers
