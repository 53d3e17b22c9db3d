"""``python -m lab.fit distributed``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.fitted_model import DistributedManifest, DistributedModel
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.analyzer.tables import table
from epochcast.regressor import load_catalog
from epochcast.regressor.model_folder import require_place
from epochcast.regressor.scoring import score
from lab.distributed.runs import read_runs
from lab.distributed.saving import save_model


class FitQuestion(Question):
    """What to fit the model of distributed training to."""

    data: Annotated[
        list[Path], Option(metavar="CSV"), Field(default_factory=list, description="Measured runs on several GPUs.")
    ]
    operators: Annotated[
        Path | None,
        Option(metavar="PATH"),
        Field(description="Operators from `measure operators`, a CSV file or a folder."),
    ] = None
    out: Annotated[Path, Option(metavar="DIR"), Field(description="Folder to write the model to.")]

    @model_validator(mode="after")
    def _has_measurements(self) -> Self:
        if not self.data and self.operators is None:
            raise ValueError("nothing to fit on; give measured runs with --data CSV, or operators with --operators PATH")
        return self


class FittedCoefficients(AnswerPart):
    """Coefficients fitted to measured runs, and their error on these very runs."""

    rows: int
    gpus: list[str]
    coefficients: dict[str, float]
    in_sample_mape: float
    in_sample_median_ape: float

    def text(self, out: Path, prior: Coefficients) -> str:
        """The error, and a table of the coefficients next to their values before the fit."""
        rows = [(name, f"{value:.3g}", f"{vars(prior)[name]:.3g}") for name, value in self.coefficients.items()]
        return "\n".join(
            [
                f"{out}: fitted on {self.rows} runs of {', '.join(self.gpus)}",
                f"error on these same runs: mean {self.in_sample_mape:.1f} %, median {self.in_sample_median_ape:.1f} % "
                "(on new runs: python -m lab.evaluate distributed)",
                table(("coefficient", "fitted", "believed"), rows),
            ]
        )


class FittedOperators(AnswerPart):
    """Measured operators that the model of operator times was fitted to."""

    rows: int
    gpus: list[str]


class FitAnswer(Answer):
    """What was fitted, and where it is."""

    runs: FittedCoefficients | None
    operators: FittedOperators | None
    seconds: float
    out: Annotated[Path, Field(exclude=True)]

    @model_serializer(mode="wrap")
    def _flat(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The figures of runs at the top, as those of every fit; nothing where no operators were given."""
        flat = fields(self)
        runs = flat.pop("runs") or {"rows": 0, "gpus": []}
        return runs | {name: value for name, value in flat.items() if value is not None}

    @property
    def text(self) -> str:
        """Where the model is, and what was fitted."""
        lines = (
            [self.runs.text(self.out, Coefficients())]
            if self.runs
            else [f"{self.out}: without runs, the built-in efficiencies are used"]
        )
        if self.operators:
            gpus = ", ".join(self.operators.gpus)
            lines.append(f"{self.out}: operator model fitted on {self.operators.rows} operators of {gpus}")
        return "\n".join([*lines, f"took {self.seconds} s"])


class DistributedFit(Plugin):
    """Fits the efficiencies of the recipe ``default``, and the operator model of ``--operators learned``."""

    name = "distributed"
    summary = "Fit the white-box model of distributed training to measured runs or operators."
    manual = """Fit the white-box model of distributed training to measured runs, measured operators, or both.

    Runs set the efficiencies of the recipe `default`; without runs, it keeps the built-in ones. Operators set the model of
    `--operators learned`. `epochcast predict-model distributed --calibration DIR` uses both.

    \b
    Example: python -m lab.fit distributed --data vtrain_multi_node.csv \\
                 --out my-clusters
             python -m lab.fit distributed --operators operators.csv --out my-gpus
    """
    Question, Answer = FitQuestion, FitAnswer

    def answer(self, question: FitQuestion) -> FitAnswer:
        """Fit, and write the model's folder; raises InputError."""
        began = time.monotonic()
        require_place(question.out, DistributedManifest)
        model, runs, operators = replace(DistributedModel.load(), operators=None), None, None
        if question.data:
            model, runs = fit_coefficients(question.data, None, self._settings)
        if question.operators is not None:
            model, operators = self._with_operators(model, question.operators)
        save_model(model, question.out)
        return FitAnswer(runs=runs, operators=operators, seconds=round(time.monotonic() - began, 1), out=question.out)

    def _with_operators(self, model: DistributedModel, path: Path) -> tuple[DistributedModel, FittedOperators]:
        """The model with operator times fitted to a corpus."""
        from lab.distributed.fitting import fit_operators
        from lab.distributed.neusight import read_corpus

        catalog = load_catalog(self._settings.gpus)
        corpus = read_corpus(path, catalog)
        self._settings.report(f"fitting {len(corpus)} operators")
        operators = fit_operators(corpus, catalog)
        return replace(model, operators=operators), FittedOperators(rows=len(corpus), gpus=sorted(corpus["gpu"].unique()))


def fit_coefficients(
    data: Sequence[Path], prior: Coefficients | None, settings: Settings
) -> tuple[DistributedModel, FittedCoefficients]:
    """Fit the coefficients to the runs of CSV files, held by ``prior`` (None: the built-in ones); raises InputError."""
    runs = [run for path in data for run in read_runs(path)]
    require_torch()
    from lab.evaluate.distributed_protocols import RunEvaluator

    evaluator = RunEvaluator(settings.report)
    coefficients = evaluator.fit(runs, prior)
    scores = score(np.array([run.seconds for run in runs]), evaluator.predict(runs, coefficients))
    gpus = sorted({run.gpu for run in runs})
    model = DistributedModel(
        coefficients,
        runs=len(runs),
        gpus=tuple(gpus),
        precisions=tuple(sorted({run.job.precision for run in runs})),
        parameters=evaluator.parameters(runs),
    )
    return model, FittedCoefficients(
        rows=len(runs),
        gpus=gpus,
        coefficients=vars(coefficients),
        in_sample_mape=scores.mape,
        in_sample_median_ape=scores.median_ape,
    )
