"""``python -m lab.evaluate convmeter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, InstanceOf
from pydantic.json_schema import SkipJsonSchema

from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.analyzer.plugins.types import one_of
from lab.convmeter_tables import UsablePoints, read_all
from lab.evaluate.common.comparison import ALL, Comparison, HeldOutFigures, RowsQuestion, each_recipe
from lab.evaluate.common.known import Known
from lab.evaluate.common.report import columns
from lab.evaluate.convmeter_protocols import (
    Answers,
    Figures,
    cell_names,
    cross_validate,
    measured_phases,
    train_and_test,
)
from lab.figures.pictures import Pairs, Scatter
from lab.rivals.convmeter import BASELINES, FORMS, fit_predict

_RECIPES = (*FORMS, *BASELINES)
_PARTS = ("pooled", "corrected")
"""Steps on the way to `default` that take as long as it does; only `--recipe all`, or their own name, asks for them."""
_PANELS = 5
"""In a row of the figure: as many as there are phases."""

_GROUPS = columns("mape", "median_ape", "rmse", "nrmse", "r2", "n")
_COLUMNS = _GROUPS | columns("coverage", spread="sd of folds")

_HEADINGS = {
    "family": "each family predicted by a fit on all others",
    "architecture": "each twelfth of the architectures predicted by a fit on the others",
    "model": "each network predicted by a fit on all others",
}


class TablesQuestion(Question):
    """Tables of measured networks, and what timm's lack."""

    features: Annotated[Path | None, Option(metavar="CSV")] = Field(
        None, description="Layer metrics of timm's networks, needed for timm's tables."
    )
    families: Annotated[Path | None, Option(metavar="CSV")] = Field(
        None, description="Family of each network and whether it is a ConvNet, for timm's tables."
    )
    all_networks: bool = Field(False, description="Include networks that --families does not list as ConvNets.")

    def read(self, tables: Sequence[Path]) -> UsablePoints:
        """See :func:`lab.convmeter_tables.read_all`."""
        return read_all(tables, self.features, self.families, convnets_only=not self.all_networks)


class ConvMeterEvaluationQuestion(RowsQuestion, TablesQuestion):
    """Which networks to predict, from which others, and by which form."""

    tables: ClassVar[str] = "Tables of measured networks"

    protocol: Annotated[Literal["family", "architecture", "model"] | None, Option(default="family")] = Field(
        None, description="Leave out a family of networks, one architecture under all its names, or one network."
    )
    recipe: Annotated[str, Option(metavar="NAME"), AfterValidator(one_of([*_RECIPES, ALL]))] = Field(
        "default", description=f"Form of the performance model: {', '.join(_RECIPES)} or {ALL} (compares them)."
    )
    phase: Annotated[
        Literal["inference", "forward", "backward", "update", "step"] | None,
        Option(default="step where measured, else inference"),
    ] = Field(None, description="Phase to predict.")
    plot: Annotated[Path | None, Option(metavar="FILE")] = Field(
        None, description="Draw measured against predicted (Figs. 3, 5 and 7 of the paper)."
    )


class TestedPoints(AnswerPart):
    """What was predicted, and from how much else."""

    networks: int
    families: int
    rows: int
    left_out: dict[str, int]
    train_rows: Known[int]


class ConvMeterEvaluationAnswer(Comparison[HeldOutFigures[Figures]]):
    """Forms next to each other in one phase, and by group: of whole networks, if any are there."""

    protocol: str | None
    phase: str
    settings: TestedPoints
    scatter: Annotated[SkipJsonSchema[InstanceOf[Scatter]], Field(exclude=True)]

    @property
    def text(self) -> str:
        """The last column of the first table is the standard deviation of the folds' MAPE."""
        settings = self.settings
        n = next(iter(self.figures.values())).scores.n
        heading = f"{n} rows of {settings.networks} networks in {settings.families} families"
        if self.protocol is None:
            heading = f"fitted on {settings.train_rows} rows, tested on {heading}"
        else:
            heading = f"{self.protocol}: {heading}, {_HEADINGS[self.protocol]}"
        left_out = "; ".join(f"{count} rows left out: {reason}" for reason, count in settings.left_out.items())
        return self.report(f"{heading}; {self.phase} time{f' ({left_out})' if left_out else ''}", _COLUMNS, _GROUPS)

    @property
    def chart(self) -> Scatter:
        """A row per phase, of the first recipe and of those that answered all phases too."""
        return self.scatter


class ConvMeterEvaluation(Plugin):
    """Predicts steps of networks that no fit saw."""

    name = "convmeter"
    summary = "Compare predicted step times of left-out networks with other models."
    manual = """\
    Compare predicted steps of left-out networks with measurements and with other models on the same rows.

    Reads tables of `epochcast measure convmeter`, timm's benchmark-*.csv, torchvision_step_times.csv, cpu_phases.csv and
    convnet.csv; each device and precision is fitted separately.

    \b
    Example: python -m lab.evaluate convmeter --data points.csv --protocol model
             python -m lab.evaluate convmeter \\
                 --data benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv \\
                 --features timm_layer_features.csv.gz \\
                 --families timm_families.csv --plot steps.png
             python -m lab.evaluate convmeter --train old.csv --test new.csv \\
                 --recipe all
    """
    Question, Answer = ConvMeterEvaluationQuestion, ConvMeterEvaluationAnswer
    reads_catalog = False

    def answer(self, question: ConvMeterEvaluationQuestion) -> ConvMeterEvaluationAnswer:
        """Fit and predict by each form; raises InputError."""
        tested, fitted = (
            question.read(question.test or question.data),
            question.read(question.train) if question.train else None,
        )
        phases = [question.phase] if question.phase else measured_phases(tested.points)
        shown = question.phase or ("step" if "step" in phases else phases[0])
        protocol = None if fitted else question.protocol or "family"

        def measure(name: str) -> dict[str, Answers]:
            """By phase; of baselines only the phase that is shown is needed."""
            form = partial(fit_predict, form=name)
            needed = phases if question.recipe in (ALL, name) else [shown]
            if fitted is not None:
                return {phase: train_and_test(fitted.points, tested.points, phase, form) for phase in needed}
            tell = lambda line: self._settings.report(f"{name}, {line}")  # noqa: E731
            return {phase: cross_validate(tested.points, phase, form, protocol or "family", tell) for phase in needed}

        baselines = [name for name in _RECIPES if name not in _PARTS]
        answers = each_recipe(question.recipe, _RECIPES, baselines, measure, self._settings)
        return ConvMeterEvaluationAnswer(
            subject=question.recipe,
            figures={name: _figures(by, shown, tested.lacking) for name, by in answers.items()},
            protocol=protocol,
            phase=shown,
            settings=TestedPoints(
                networks=tested.points["network"].nunique(),
                families=tested.points["family"].nunique(),
                rows=len(tested.points),
                left_out=dict(tested.left_out),
                train_rows=len(fitted.points) if fitted else None,
            ),
            scatter=_scatter(answers, phases),
        )


def _figures(answers: Mapping[str, Answers], shown: str, lacking: int) -> HeldOutFigures[Figures]:
    """In the phase that is shown, and by what the rows differ in."""
    networks = {phase: _whole(rows) for phase, rows in answers.items()}
    subject = networks[shown]
    blocks = answers[shown].only((answers[shown].points["block"] != "").to_numpy())
    by = {
        "device": subject.by(cell_names(subject.points)),
        "phase": {phase: rows.figures for phase, rows in networks.items()},
        **{column: subject.by(column) for column in ("batch", "image_size", "devices", "family", "network")},
        "block": blocks.by(blocks.points["network"] + " " + blocks.points["block"]),
    }
    return HeldOutFigures[Figures].of(subject, by, lacking)


def _whole(answers: Answers) -> Answers:
    is_network = (answers.points["block"] == "").to_numpy()
    return answers.only(is_network) if is_network.any() else answers


def _scatter(answers: Mapping[str, Mapping[str, Answers]], phases: Sequence[str]) -> Scatter:
    """Of one phase or one form the panels go on in the next row where they fill one."""
    names = [name for name, by in answers.items() if set(phases) <= set(by)]

    def pairs(name: str, phase: str) -> Pairs:
        rows = _whole(answers[name][phase])
        return Pairs(f"{name}, {phase}", rows.measured, rows.predicted, cell_names(rows.points))

    rows = [[pairs(name, phase) for name in names] for phase in phases]
    if min(len(phases), len(names)) > 1:
        return Scatter(rows)
    panels = [panel for row in rows for panel in row]
    return Scatter([panels[begin : begin + _PANELS] for begin in range(0, len(panels), _PANELS)])
