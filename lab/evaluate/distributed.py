"""``python -m lab.evaluate distributed``."""

from __future__ import annotations

from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, InstanceOf, model_validator
from pydantic.json_schema import SkipJsonSchema

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.question import Option
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import Scores
from lab.distributed.runs import read_runs
from lab.evaluate.common.comparison import Comparison, RecipeFigures, RowsQuestion, each_recipe
from lab.evaluate.common.known import Known
from lab.evaluate.common.report import Line, columns, figure, lines, number, paragraphs, within
from lab.figures.pictures import Errors
from lab.rivals.distributed import RECIPES

if TYPE_CHECKING:
    from lab.evaluate.distributed_protocols import RecipePredictions

_ROWS = 10
_File = Annotated[Path | None, Option(metavar="FILE")]

_GROUPS = columns("mape", "median_ape", "n", "regret")
_COLUMNS = columns("mape", "median_ape", "rmse", "r2", "n", "coverage", "inside") | {
    "regret %": lambda line: figure(max(line["regret"].values())) if line["regret"] else "-"
}
_LEGEND = (
    "inside: share within the 90 % interval; regret: how much longer the predicted fastest configuration takes than the true "
    "fastest, at worst"
)
_METHODS = {"zero": "GPU left out", "probe": "with a probe", "roofline": "roofline", "neusight": "NeuSight"}
_OPERATORS = columns(
    n="n", zero_mape="MAPE %", zero_median="median %", probe_mape="with a probe", probe_sd="standard deviation"
)


class EvaluationQuestion(RowsQuestion):
    """Which runs to predict, from which others, and by which recipe; or which GPUs."""

    tables: ClassVar[str] = "Tables of measured runs"

    protocol: Annotated[Literal["size", "rows", "gpu"] | None, Option(default="size")] = Field(
        None,
        description="Leave out a model size, learn from a few rows, or leave out a GPU's operators (--data: one table of "
        "models measured end to end).",
    )
    rows: Annotated[int | None, Option(metavar="N", default=str(_ROWS))] = Field(
        None, ge=0, description="Number of runs to learn from in each of twelve draws (protocol rows)."
    )
    operators: Annotated[Path | None, Option(metavar="PATH")] = Field(
        None, description="Measured operators, a CSV file or a folder (protocol gpu)."
    )
    probe: Annotated[int | None, Option(metavar="N", default="0")] = Field(
        None, ge=0, description="Number of operators measured on the new GPU (protocol gpu)."
    )
    recipe: Literal["default", "seed", "roofline", "neusight-style", "vtrain-style", "all"] = Field(
        "default", description="Method of prediction, or `all` to compare them."
    )
    plot: _File = Field(None, description="Draw the error by configuration, with baselines (Fig. 2 of the paper).")
    gpus: _File = Field(None, description="TOML file with GPUs of your own (protocol gpu).")

    @model_validator(mode="after")
    def _of_its_protocol(self) -> Self:
        by_gpu = self.protocol == "gpu"
        if self.rows is not None and self.protocol != "rows":
            raise ValueError(f"--rows {self.rows} applies only to --protocol rows; give both")
        if by_gpu != (self.operators is not None):
            raise ValueError("--protocol gpu and --operators PATH need each other; give both")
        if self.probe is not None and not by_gpu:
            raise ValueError(f"--probe {self.probe} applies only to --protocol gpu; give both")
        if self.gpus is not None and not by_gpu:
            raise ValueError("--gpus applies only to --protocol gpu; give both")
        if by_gpu and self.plot is not None:
            raise ValueError("--plot draws errors by configuration, which --protocol gpu does not have; leave it out")
        if by_gpu and self.recipe != "default":
            raise ValueError(f"--recipe {self.recipe} predicts runs, but --protocol gpu compares operator models; leave it out")
        if by_gpu and (tables := len(self.data)) != 1:
            raise ValueError(f"--protocol gpu reads one table of models measured end to end, not {tables}; give --data once")
        return self


class RunFigures(RecipeFigures[Scores]):
    """How well a recipe predicts the runs.

    Attributes:
        spread: MAPE of each draw, percent, of protocol ``rows``.
        regret: percent that following a prediction costs, by model size; of several draws of the same runs it is not known.
        inside: share of runs within the interval that an answer on a measured GPU and precision has.
        by: by model size and by the kinds of parallelism that are mixed.
    """

    spread: list[float]
    regret: dict[str, float] | None
    inside: float | None
    by: dict[str, dict[str, Scores]]


class TestedRuns(AnswerPart):
    """How much was predicted, and from how much."""

    train_runs: Known[int]
    runs: int
    rows: Known[int]


class EvaluationAnswer(Comparison[RunFigures]):
    """Recipes next to each other, and by group."""

    protocol: str | None
    settings: TestedRuns
    errors: Annotated[SkipJsonSchema[InstanceOf[Errors]], Field(exclude=True)]

    @property
    def text(self) -> str:
        """What following a prediction costs is next to the errors of each size."""
        first = next(iter(self.figures.values()))
        by = {key: {name: dict(vars(scores)) for name, scores in named.items()} for key, named in first.by.items()}
        for size, regret in (first.regret or {}).items():
            by["size"][size]["regret"] = regret
        return self.report(self._heading(first.spread), _COLUMNS, _GROUPS, by, legend=_LEGEND if first.regret else "")

    def _heading(self, spread: list[float]) -> str:
        runs = self.settings.runs
        if self.protocol is None:
            return f"fitted on {self.settings.train_runs} runs, tested on {runs} others"
        if self.protocol == "size":
            return f"size: {runs} runs, each model size predicted by a fit on all others"
        if not spread:
            return f"rows: {runs} runs, none to learn from"
        return (
            f"rows: {self.settings.rows} of {runs} runs to learn from, tested on the others; {len(spread)} draws, MAPE "
            f"{figure(min(spread))} to {figure(max(spread))}, standard deviation {figure(stdev(spread))}"
        )

    @property
    def chart(self) -> Errors:
        """The error by configuration."""
        return self.errors


class GpuEvaluationAnswer(Answer):
    """Protocol ``gpu``: what :class:`.operator_time.evaluation.GpuEvaluation` has, and the columns of its tables."""

    protocol: Literal["gpu"] = "gpu"
    probe: int
    n: int
    mape: float
    median_ape: float
    sd: Known[float] = None
    rmse: float
    r2: float
    coverage: float
    inside: float
    by: dict[str, dict[str, dict[str, int | float]]]
    methods: dict[str, dict[str, int | float]]
    left_out: dict[str, int]
    operators: list[dict[str, str | int | float]]

    @property
    def text(self) -> str:
        """Errors of whole models by GPU and mode, all methods on the same rows, and of single operators."""
        methods = {title: within(name, _with_deviation) for name, title in _METHODS.items() if name in self.methods}
        whole = [(name, {"n": by["zero"]["n"], **by}) for name, by in (*self.by.items(), ("all", self.methods))]
        families = {"operators": lambda row: str(row["family"])} | _OPERATORS
        return paragraphs(
            "models end to end, MAPE % (standard deviation over the probes drawn); NeuSight was trained on these GPUs, ours "
            "leave each one out",
            lines("GPU", {"n": number("n"), **methods}, whole),
            f"{100 * self.inside:.0f} % are within the 90 % interval for an unmeasured GPU",
            f"left out: {', '.join(f'{count} rows ({reason})' for reason, count in self.left_out.items()) or 'nothing'}",
            lines("GPU", families, [(str(row["gpu"]), row) for row in self.operators]) if self.operators else "",
        )


def _with_deviation(figures: Line) -> str:
    if not figures["n"]:
        return "-"
    return figure(figures["mape"]) + (f" ({figures['sd']:.2g})" if "sd" in figures else "")


class DistributedEvaluation(Plugin):
    """Predicts runs, or GPUs, that no fit saw."""

    name = "distributed"
    summary = "Compare predicted iteration times on several GPUs with other recipes."
    manual = """Compare predicted iteration times on several GPUs with measurements and other recipes.

    \b
    Example: python -m lab.evaluate distributed --data vtrain_multi_node.csv
             python -m lab.evaluate distributed --data vtrain_multi_node.csv \\
                 --protocol rows --rows 10 --recipe all
             python -m lab.evaluate distributed --train old.csv --test new.csv \\
                 --plot errors.png
             python -m lab.evaluate distributed --protocol gpu --data end_to_end.csv \\
                 --operators operators/ --probe 20
    """
    Question, Answer = EvaluationQuestion, EvaluationAnswer
    reads_catalog = False

    def answer(self, question: EvaluationQuestion) -> EvaluationAnswer | GpuEvaluationAnswer:
        """Fit and predict by each recipe, or for each GPU; raises InputError."""
        require_torch()
        if question.operators is not None:
            return self._by_gpu(question.data[0], question.operators, question.probe or 0, question.gpus)
        from lab.evaluate.distributed_protocols import RunEvaluator, by_rows, by_size, by_split

        evaluator = RunEvaluator(self._settings.report)
        tested = [run for path in question.test or question.data for run in read_runs(path)]
        fitted = [run for path in question.train for run in read_runs(path)]
        protocol = None if fitted else question.protocol or "size"
        rows = None if protocol != "rows" else _ROWS if question.rows is None else question.rows
        if known := sum(run in fitted for run in tested):
            self._settings.note(f"{known} of the {len(tested)} runs of --test are also in --train, so this tests nothing")
        measure = {
            None: lambda name: by_split(evaluator, fitted, tested, name),
            "rows": lambda name: by_rows(evaluator, tested, rows or 0, name),
            "size": lambda name: by_size(evaluator, tested, name),
        }[protocol]
        answers = each_recipe(question.recipe, list(RECIPES), RECIPES, measure, self._settings)
        return EvaluationAnswer(
            subject=question.recipe,
            figures={name: _figures(name, own, bool(rows)) for name, own in answers.items()},
            protocol=protocol,
            settings=TestedRuns(train_runs=len(fitted) or None, runs=len(tested), rows=rows),
            errors=Errors({name: _errors(own) for name, own in answers.items()}),
        )

    def _by_gpu(self, data: Path, operators: Path, probe: int, gpus: Path | None) -> GpuEvaluationAnswer:
        from lab.distributed.neusight import read_corpus
        from lab.evaluate.distributed_operators import evaluate_by_gpu, read_end_to_end
        from lab.evaluate.neusight_workloads import NAMES, operators_of

        catalog = load_catalog(gpus)
        measured = read_end_to_end(data, catalog, NAMES)
        self._settings.report("fitting one operator model per GPU")
        evaluation = evaluate_by_gpu(read_corpus(operators, catalog), measured, operators_of, catalog, probe)
        return GpuEvaluationAnswer.model_validate({"probe": probe, **evaluation.summary()})


def _figures(recipe: str, answers: RecipePredictions, drawn: bool) -> RunFigures:
    from lab.distributed.intervals import inside
    from lab.evaluate.distributed_protocols import regret

    return RunFigures(
        scores=answers.figures,
        spread=[draw.mape for draw in answers.by_test().values()] if drawn else [],
        regret=None if drawn else regret(answers),
        inside=inside(answers.measured, answers.predicted, 16, "measured", "calibrated") if recipe == "default" else None,
        by={key: answers.by(key) for key in ("size", "parallelism")},
    )


def _errors(answers: RecipePredictions) -> dict[tuple[str, tuple[int, int, int]], float]:
    """MAPE by precision and (data, tensor, pipeline)."""
    points = answers.points
    degrees = zip(points["data"], points["tensor"], points["pipeline"], strict=True)
    keys = list(zip(points["precision"], degrees, strict=True))
    by = answers.by([str(key) for key in keys])
    return {key: by[str(key)].mape for key in keys}
