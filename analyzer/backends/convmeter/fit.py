"""``epochcast fit convmeter``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import Field

from epochcast.analyzer.backends.convmeter.answer import rests_on
from epochcast.analyzer.backends.convmeter.metrics import read_points
from epochcast.analyzer.backends.convmeter.predictor import Cell, ConvNetPredictor
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question


class ConvMeterFitQuestion(Question):
    """What to fit ConvMeter's performance model to."""

    data: Annotated[list[Path], Option(metavar="CSV"), Field(min_length=1, description="Table of measured networks.")]
    out: Annotated[Path, Option(metavar="DIR"), Field(description="Folder to write the model to.")]


class ConvMeterFitAnswer(Answer):
    """What was fitted, and where it is."""

    rows: int
    cells: list[Cell]
    out: Annotated[Path, Field(exclude=True)]

    @property
    def text(self) -> str:
        """Where the model is, and what each device and precision rests on."""
        head = f"{self.out}: fitted on {self.rows} points"
        cells = (f"\n{cell.device}, {cell.precision}, recipe {cell.recipe}\n{rests_on(cell.fits)}" for cell in self.cells)
        return "\n".join([head, *cells])


class ConvMeterFit(Plugin):
    """Fits ConvMeter's performance model."""

    name = "convmeter"
    summary = "Fit ConvMeter's performance model to measured networks."
    manual = """Fit both recipes, default and the paper's, to measured networks, each device and precision separately.

    \b
    Example: epochcast fit convmeter --data points.csv --out my-gpu
    """
    Question, Answer = ConvMeterFitQuestion, ConvMeterFitAnswer
    reads_catalog = False

    def answer(self, question: ConvMeterFitQuestion) -> ConvMeterFitAnswer:
        """Fit, and write the model's folder; raises InputError."""
        self._settings.report("reading")
        points = pd.concat(map(read_points, question.data), ignore_index=True)
        self._settings.report(f"fitting {len(points)} points")
        predictor = ConvNetPredictor.fit(points)
        predictor.save(question.out)
        for reason in predictor.unfitted:
            self._settings.note(f"not fitted: {reason}")
        return ConvMeterFitAnswer(
            rows=len(points),
            cells=predictor.cells,
            out=question.out,
        )
