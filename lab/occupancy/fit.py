"""``python -m lab.fit occupancy``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from epochcast.analyzer.backends.occupancy.answer import FittedModel
from epochcast.analyzer.backends.occupancy.predictor import OccupancyManifest
from epochcast.analyzer.backends.occupancy.question import fitted_model
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.analyzer.plugins.types import one_of
from epochcast.regressor import Catalog, load_catalog
from epochcast.regressor.model_folder import require_place
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.models import DEFAULT_MODEL, EPOCHS, save_predictor
from lab.occupancy.training_jobs import TrainingJobs, read_training_jobs
from lab.rivals.occupancy import MODELS


class TrainingsQuestion(Question):
    """How tables of measured trainings are read, and a model fitted to them."""

    epochs: Annotated[int, Option(metavar="N")] = Field(
        EPOCHS, ge=1, le=100_000, description="Training epochs of a neural model."
    )
    seed: Annotated[int, Option(metavar="N", default="0")] = Field(0, ge=0, lt=2**32, description="Seed of the random numbers.")
    gpu: Annotated[str | None, Option(metavar="NAME", default="A100 SXM4 40GB")] = Field(
        None, description="GPU that was measured, if a table does not name it."
    )

    def read(self, tables: Sequence[Path], catalog: Catalog) -> TrainingJobs:
        """See :func:`.training_jobs.read_training_jobs`."""
        return read_training_jobs(tables, catalog, None if self.gpu is None else catalog.resolve(self.gpu))


class FitQuestion(TrainingsQuestion):
    """What to fit a predictor of occupancy to."""

    data: Annotated[list[Path], Option(metavar="CSV"), Field(min_length=1, description="Table of measured trainings.")]
    model: Annotated[
        str,
        Option(metavar="NAME"),
        AfterValidator(one_of(MODELS)),
        Field(description=f"Model of SM occupancy and SM activity: {', '.join(MODELS)}."),
    ] = DEFAULT_MODEL
    out: Annotated[Path, Option(metavar="DIR"), Field(description="Folder to write the model to.")]


class FitAnswer(FittedModel, Answer):
    """What was fitted, and where it is."""

    seconds: float
    left_out: dict[str, int]
    out: Annotated[Path, Field(exclude=True)]

    @property
    def text(self) -> str:
        """Where the model is, what it rests on, and what it does not."""
        rest = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        return f"{self.out}: {super().text}\n{self.seconds} s" + (f"; rows left out: {rest}" if rest else "")


class OccupancyFit(Plugin):
    """Fits a predictor of SM occupancy, SM activity and peak memory."""

    name = "occupancy"
    summary = "Fit a predictor of GPU occupancy to measured networks."
    manual = """Fit a predictor of SM occupancy, SM activity and peak memory to measured training runs.

    Reads tables from `python -m lab.measure occupancy` and GPUMemNet's tables of random networks measured with DCGM.

    \b
    Example: python -m lab.fit occupancy --data trainings.csv --out my-gpu
             python -m lab.fit occupancy --data trainings.csv --model dnn-occu \\
                 --epochs 50 --out my-gpu
    """
    Question, Answer = FitQuestion, FitAnswer

    def answer(self, question: FitQuestion) -> FitAnswer:
        """Fit, and write the model's folder; raises InputError."""
        began = time.monotonic()
        catalog = load_catalog(self._settings.gpus)
        self._settings.report("reading")
        jobs = question.read(question.data, catalog)
        require_place(question.out, OccupancyManifest)  # before a fit that may take an hour
        predictor = fit_predictor(
            jobs, question.model, {"seed": question.seed, "epochs": question.epochs}, self._settings.report
        )
        save_predictor(predictor, question.out)
        return FitAnswer(
            **fitted_model(predictor).model_dump(),
            seconds=round(time.monotonic() - began, 1),
            left_out={reason: count for reason, count in jobs.left_out.items() if count},
            out=question.out,
        )
