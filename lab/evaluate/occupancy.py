"""``python -m lab.evaluate occupancy``: SM occupancy, SM activity and peak memory of trainings that DCGM measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.analyzer.plugins.question import Option
from epochcast.analyzer.plugins.types import one_of
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import Scores
from lab.evaluate.common.comparison import ALL, Comparison, HeldOutFigures, RowsQuestion, each_recipe
from lab.evaluate.common.known import Known
from lab.evaluate.common.report import columns
from lab.evaluate.occupancy_protocols import (
    FOLDS,
    PROTOCOLS,
    Answers,
    OutOfMemory,
    cross_validate,
    peak_memory,
    train_and_test,
)
from lab.occupancy.fit import TrainingsQuestion
from lab.occupancy.fitting import unfitted
from lab.occupancy.models import DEFAULT_MODEL, Model
from lab.occupancy.training_jobs import Label, TrainingJobs
from lab.rivals.occupancy import MODELS

PEAK_MEMORY = "peak-memory"
"""The recipe that knows torch's allocator, of peak memory alone."""

_GROUPS = columns("mape", "median_ape", "r2", "n")
_COLUMNS = _GROUPS | columns("coverage", spread="sd of tests")

_HEADINGS = {
    "layers": "each network predicted by a fit on others, in groups of equal networks",
    "architecture": "each architecture predicted by a fit on all others",
    "depth": "the deepest quarter predicted by a fit on the rest",
    "width": "the widest quarter predicted by a fit on the rest",
}


class EvaluationQuestion(RowsQuestion, TrainingsQuestion):
    """Which trainings to predict, from which others, and by which model."""

    tables: ClassVar[str] = "Tables of measured trainings"
    splitting: ClassVar[tuple[str, ...]] = ("protocol", "folds")

    label: Label = Field("sm_occupancy", description="Label to predict.")
    protocol: Annotated[
        Literal["layers", "architecture", "depth", "width"] | None, Option(metavar="NAME", default="layers")
    ] = Field(
        None,
        description="What to leave out together: layers (equal networks), architecture, or the deepest or widest quarter "
        "(depth, width).",
    )
    folds: Annotated[int | None, Option(metavar="K", default=str(FOLDS))] = Field(
        None, ge=2, le=1000, description="Number of groups to leave out in turn, for --protocol layers."
    )
    recipe: Annotated[str | None, Option(metavar="NAME"), AfterValidator(one_of([*MODELS, PEAK_MEMORY, ALL]))] = Field(
        None, description=f"Model to fit: {', '.join([*MODELS, PEAK_MEMORY])} or {ALL} (compares them)."
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.folds is not None and self.protocol not in (None, "layers"):
            raise ValueError(
                f"--folds applies only to --protocol layers; {self.protocol} has its own groups, leave out --folds"
            )
        if self.recipe == PEAK_MEMORY and self.label != "peak_memory":
            raise ValueError(f"--recipe {PEAK_MEMORY} predicts no {self.label}; give --label peak_memory or another recipe")
        return self


class Crashed(AnswerPart):
    """Trainings that ran out of memory and have the label all the same, by a fit on other networks."""

    n: int = 0
    mape: Known[float] = None
    median_ape: Known[float] = None


class ModelFigures(HeldOutFigures[Scores]):
    """How well a model predicts the trainings that ran to their end."""

    out_of_memory: Known[OutOfMemory] = None
    crashed: Crashed


class TestedTrainings(AnswerPart):
    """What was predicted, and from how much else."""

    rows: int
    networks: int
    gpus: list[str]
    seed: int
    epochs: int
    folds: int | None
    left_out: dict[str, int]
    train_rows: Known[int]


class EvaluationAnswer(Comparison[ModelFigures]):
    """Models next to each other on one label, and by group."""

    labels: Literal["dcgm"] = "dcgm"
    label: Label
    protocol: str | None
    settings: TestedTrainings

    @property
    def text(self) -> str:
        """Trainings that ran out of memory are scored apart from the others."""
        settings, first = self.settings, next(iter(self.figures.values()))
        fitted = f"fitted on {settings.train_rows} other rows" if self.protocol is None else _HEADINGS[self.protocol]
        parts = [
            f"labels: {self.label} as DCGM measured it while networks trained",
            f"{settings.rows} rows of {settings.networks} networks on {', '.join(settings.gpus)}, {fitted}",
        ]
        if left_out := ", ".join(f"{count} {reason}" for reason, count in settings.left_out.items() if count):
            parts.append(f"rows left out: {left_out}")
        if apart := first.crashed.n:
            parts.append(f"{apart} rows ran out of memory but have the label: {first.crashed.mape:.1f} % off, scored apart")
        if (crashes := first.out_of_memory) and crashes.crashed:
            parts.append(
                f"out of memory: {crashes.crashed} of {crashes.n}, {crashes.recall:.1f} % of them foreseen; "
                f"{crashes.precision:.1f} % of the warnings right"
            )
        return self.report("\n".join(parts), _COLUMNS, _GROUPS)


class OccupancyEvaluation(Plugin):
    """Predicts trainings of networks that no fit saw."""

    name = "occupancy"
    summary = "Compare predicted GPU occupancy of left-out networks with simpler models."
    manual = """\
    Compare predicted SM occupancy, SM activity or peak memory with measurements of training runs that the fit did not see.

    Reads the tables that `python -m lab.fit occupancy` reads. The mean of the fitted trainings is scored on the same rows; for
    peak memory, so is `trees`, which does not know the allocator. Training runs that ran out of memory are scored separately.

    \b
    Example: python -m lab.evaluate occupancy --data trainings.csv
             python -m lab.evaluate occupancy --data trainings.csv \\
                 --label peak_memory --protocol architecture
             python -m lab.evaluate occupancy --train old.csv --test new.csv \\
                 --label sm_active --recipe all
    """
    Question, Answer = EvaluationQuestion, EvaluationAnswer

    def answer(self, question: EvaluationQuestion) -> EvaluationAnswer:
        """Fit and predict by each model; raises InputError."""
        catalog, label = load_catalog(self._settings.gpus), question.label
        self._settings.report("reading")
        every = question.read(question.test or question.data, catalog)
        tested, crashed = every.labelled(label), every.crashed(label)
        if not tested.samples:
            raise InputError(f"no completed row has a {label} to score; give a table with some")
        known = question.read(question.train, catalog) if question.train else every
        fitted = known.labelled(label)
        protocol = None if question.train else question.protocol or "layers"
        folds = question.folds or FOLDS
        splits = [] if protocol is None else PROTOCOLS[protocol](tested.points, folds, question.seed)

        def measure(name: str) -> ModelFigures:
            def say(line: str) -> None:
                self._settings.report(f"{name}, {line}")

            if name == PEAK_MEMORY:
                own = None if protocol is None else PROTOCOLS[protocol](every.points, folds, question.seed)
                answers, crashes = peak_memory(known, every, own, say)
                return _figures(answers, Crashed(), crashes)
            make = partial(unfitted, name, {"seed": question.seed, "epochs": question.epochs})
            answers = (
                train_and_test(fitted, tested, label, make)
                if protocol is None
                else cross_validate(tested, label, make, splits, say)
            )
            return _figures(answers, _apart(fitted, crashed, label, make))

        recipes, baselines = [*MODELS], ["mean"]
        if label == "peak_memory":
            recipes, baselines = [PEAK_MEMORY, *recipes], ["trees", *baselines]
        subject = question.recipe or (PEAK_MEMORY if label == "peak_memory" else DEFAULT_MODEL)
        figures = each_recipe(subject, recipes, baselines, measure, self._settings)
        if shared := int(tested.points["layers"].isin(set(fitted.points["layers"])).sum()) if question.train else 0:
            self._settings.note(
                f"{shared} of the {len(tested.points)} rows of --test are networks in --train, so this tests no new networks"
            )
        return EvaluationAnswer(
            subject=subject,
            figures=figures,
            label=label,
            protocol=protocol,
            settings=TestedTrainings(
                rows=len(tested.points),
                networks=int(tested.points["layers"].nunique()),
                gpus=sorted(set(tested.points["gpu"])),
                seed=question.seed,
                epochs=question.epochs,
                folds=question.folds,
                left_out=dict(every.left_out) | {"not read, or idle": int(every.points["fits"].sum()) - len(tested.points)},
                train_rows=len(fitted.points) if question.train else None,
            ),
        )


def _figures(answers: Answers, crashed: Crashed, out_of_memory: OutOfMemory | None = None) -> ModelFigures:
    by = {"test": answers.by_test(), "architecture": answers.by("architecture")}
    return ModelFigures.of(answers, by, crashed=crashed, out_of_memory=out_of_memory)


def _apart(fitted: TrainingJobs, crashed: TrainingJobs, label: str, make: Callable[[], Model]) -> Crashed:
    if not crashed.samples:
        return Crashed()
    others = fitted.only(~fitted.points["layers"].isin(set(crashed.points["layers"])).to_numpy(dtype=bool))
    scores = train_and_test(others, crashed, label, make).figures
    return Crashed(n=scores.n, mape=scores.mape, median_ape=scores.median_ape)
