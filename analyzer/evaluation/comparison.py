"""Recipes on the same rows: the question says which rows, the answer has the error figures of each recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...regressor import InputError as RegressorInputError
from ..errors import InputError
from ..plugins import Settings
from ..plugins.answer import Answer, AnswerPart
from ..plugins.question import Option, Question
from .held_out import FiguresT, HeldOut
from .report import Columns, Line, report

ALL = "all"
"""The name for every recipe."""

_Tables = Annotated[list[Path], Option(metavar="CSV")]
_MeasuredT = TypeVar("_MeasuredT")


class RowsQuestion(Question):
    """One table that the protocol splits, or what is fitted on and what is tested."""

    tables: ClassVar[str]
    """What they hold, for the help."""
    splitting: ClassVar[Sequence[str]] = ("protocol",)
    """Fields that say how one table is split; None where they are not set."""

    data: _Tables = Field([], description="that the protocol splits")
    train: _Tables = Field([], description="to fit on, with --test")
    test: _Tables = Field([], description="to test on, with --train")

    @classmethod
    def __pydantic_init_subclass__(cls, **of_pydantic: Any) -> None:
        """Name the tables in the help."""
        for name in ("data", "train", "test"):
            cls.model_fields[name].description = f"{cls.tables} {RowsQuestion.model_fields[name].description}"

    @model_validator(mode="after")
    def _one_table_or_two(self) -> Self:
        if bool(self.data) == bool(self.train) or bool(self.train) != bool(self.test):
            raise ValueError("give either --data or both --train and --test")
        if self.train and (superfluous := [f"--{name}" for name in self.splitting if getattr(self, name) is not None]):
            raise ValueError(f"{' and '.join(superfluous)} splits one table; with --train and --test leave it out")
        return self


class RecipeFigures(AnswerPart, Generic[FiguresT]):
    """How well a recipe predicts the rows: scores over all of them, which the JSON has beside the fields of a subclass."""

    scores: FiguresT

    @model_serializer(mode="wrap")
    def _flat(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        flat: dict[str, Any] = fields(self)
        return {**flat.pop("scores"), **flat}


class HeldOutFigures(RecipeFigures[FiguresT], Generic[FiguresT]):
    """Those of rows that were held out.

    Attributes:
        spread: standard deviation of the tests' MAPE, percent; NaN with less than two.
        unanswered: why a row has no answer, the first of them; empty if all have.
        by: error figures of groups, by what they are grouped by.
    """

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
    """A recipe beside its baselines, or all recipes. Other fields say what was tested; the JSON repeats them for each recipe.

    Attributes:
        subject: the recipe that is evaluated, or ``all``.
        figures: by recipe, the subject first.
    """

    subject: str
    figures: dict[str, _FiguresT]

    @model_serializer(mode="wrap")
    def _of_each_recipe(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any] | list[dict[str, Any]]:
        common = fields(self)
        subject, figures = common.pop("subject"), common.pop("figures")
        each = {name: {"recipe": name, **common, **own} for name, own in figures.items()}
        return list(each.values()) if subject == ALL else each.pop(subject) | {"baselines": each}

    def report(
        self, heading: str, recipes: Columns, groups: Columns, by: Mapping[str, Mapping[str, Line]] | None = None, **more: Any
    ) -> str:
        """See :func:`.report.report`; ``by`` is that of the subject, unless it is given."""
        lines: dict[str, Line] = {name: figures.model_dump() for name, figures in self.figures.items()}
        return report(heading, lines, recipes, {} if self.subject == ALL else by or lines[self.subject]["by"], groups, **more)


def each_recipe(
    subject: str, every: Sequence[str], baselines: Iterable[str], measure: Callable[[str], _MeasuredT], settings: Settings
) -> dict[str, _MeasuredT]:
    """What the subject and its baselines answer, or all recipes; one that cannot is left out with a note.

    Args:
        subject: a recipe, or ``all``.
        every: names of all recipes.
        baselines: those that a single recipe is compared with.
        measure: fits and predicts by the recipe of this name.
        settings: where notes go.

    Raises:
        InputError: the subject cannot answer, or none of all.
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
            settings.note(f"{name} is left out: {error}")
    if not answers:
        raise errors[0]
    return answers
