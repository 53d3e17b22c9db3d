"""``epochcast fit regressor``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.regressor import Catalog, LatencyPredictor, PaperPredictor, Profile, load_catalog
from epochcast.regressor.job_types import job_type_of
from epochcast.regressor.model_folder import require_place
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import Precision
from epochcast.regressor.telemetry import METRICS

_NEW = {"P2": "on a new workload", "P3": "on a new model", "P4": "on a new GPU"}


class FitQuestion(Question):
    """What to fit the latency predictor to."""

    data: Annotated[list[Path], Option(metavar="PATH")] = Field(
        min_length=1, description="Profiles (a folder, *.json or *.jsonl), or a folder of traces with label files."
    )
    onto: Annotated[str | None, Option(metavar="MODEL")] = Field(
        None, description="Correct this model (a folder, or `default`) for a new GPU, with a few workloads measured on both."
    )
    precision: Annotated[Precision | None, Option(default="what the telemetry shows, else unknown")] = Field(
        None, description="Precision of jobs that do not name theirs; tf32: FP32 code; fp32: FP32 with TF32 off."
    )
    pipeline: Pipeline = Field("default", description="Fit Epochcast's own model, or the black-box paper's.")
    out: Annotated[Path, Option(metavar="DIR"), Field(description="Folder to write the model to.")]

    @model_validator(mode="after")
    def _corrects_our_own(self) -> Self:
        if self.onto is not None and self.pipeline != "default":
            raise ValueError("--onto corrects a model of our own; leave out --pipeline")
        return self


class FitAnswer(Answer):
    """What was fitted, and where it is; errors by protocol, percent; features of the paper that are not used, with the reason.

    ``corrected``: with ``--onto``, the GPUs that are corrected now, each with the number of workloads measured on it.
    """

    rows: int
    gpus: list[str]
    seconds: float
    mape: dict[str, float]
    metrics: list[str]
    excluded: dict[str, str]
    corrected: dict[str, int]
    pipeline: Annotated[Pipeline, Field(exclude=True)]
    out: Annotated[Path, Field(exclude=True)]

    @property
    def text(self) -> str:
        """What was fitted, or corrected, and how well it does."""
        if self.corrected:
            return "\n".join(
                f"{self.out}: predictions for {gpu} are corrected by {workloads} workloads measured on it"
                for gpu, workloads in self.corrected.items()
            )
        errors = ", ".join(f"{error:.1f} % {_NEW[protocol]}" for protocol, error in self.mape.items())
        lines = [
            f"{self.out}: fitted on {self.rows} profiles of {', '.join(self.gpus)} in {self.seconds} s",
            f"mean error on left-out data: {errors}",
        ]
        if not self.metrics:
            return "\n".join([*lines, "metrics: none, because too few profiles have telemetry; only GPU speeds were learnt"])
        return "\n".join([*lines, f"metrics: {', '.join(self.metrics)}"])


class RegressorFit(Plugin):
    """Fits the black-box latency predictor."""

    name = "regressor"
    summary = "Fit the black-box latency predictor to profiles of several GPUs."
    manual = """Fit the black-box latency predictor to profiles of several GPUs.

    \b
    Example: epochcast fit regressor --data traces/ --out my-model
             epochcast fit regressor --onto default \\
                 --data anchors-on-t4/ --data anchors-on-l4/ --out my-model
             epochcast fit regressor --pipeline paper \\
                 --data profiles/ --out my-paper

    A run of wandb, or any log, becomes a profile by `epochcast profile RUN --workload NAME > profiles/RUN.json`.

    Runs on a CPU, or on a GPU that is not in the catalogue, are skipped and listed. In a folder of traces each NAME.parquet or
    NAME.csv has a NAME.json with its "workload", its "group" and, if known, its true epochs ("epoch_starts", "epoch_ends",
    "training"); otherwise they are detected. The paper's model takes a few minutes: it is fitted a dozen times to get
    intervals, which the paper does not provide.
    """
    Question, Answer = FitQuestion, FitAnswer

    def answer(self, question: FitQuestion) -> FitAnswer:
        """Fit, and write the model's folder; raises InputError."""
        began, ours = time.monotonic(), question.pipeline == "default"
        catalog = load_catalog(self._settings.gpus)
        require_place(question.out, (LatencyPredictor if ours else PaperPredictor).manifest)  # before a fit of minutes
        if question.onto is not None:
            return self._correct(question, question.onto, catalog, began)
        profiles = self._profiles(question, catalog)
        profiles = [
            replace(
                profile,
                precision=profile.precision or question.precision,
                type=profile.type or job_type_of(profile.group or ""),
            )
            for profile in profiles
        ]
        kind = LatencyPredictor if ours else PaperPredictor
        predictor = kind.fit(profiles, catalog, progress=self._settings.report)
        predictor.save(question.out)
        seconds = round(time.monotonic() - began, 1)
        metrics: Sequence[str] = ()
        excluded: Mapping[str, str] = {}
        if isinstance(predictor, PaperPredictor):
            metrics, excluded = predictor.metrics, predictor.recipe.excluded_
        elif predictor.recipe.telemetry_ is not None:
            metrics = METRICS
        return FitAnswer(
            rows=len(profiles),
            gpus=sorted({profile.gpu for profile in profiles}),
            seconds=seconds,
            mape={protocol: figures["mape"] for protocol, figures in predictor.accuracy.items()},
            metrics=list(metrics),
            excluded=dict(excluded),
            corrected={},
            pipeline=question.pipeline,
            out=question.out,
        )

    def _correct(self, question: FitQuestion, model: str, catalog: Catalog, began: float) -> FitAnswer:
        # A folder of that name is meant by ./default.
        known = LatencyPredictor.load(None if model == "default" else Path(model), catalog)
        profiles = self._profiles(question, catalog)
        predictor = known.calibrate(profiles)
        predictor.save(question.out)
        before = {calibration.gpu: calibration for calibration in known.calibrations}
        new = [calibration for calibration in predictor.calibrations if calibration is not before.get(calibration.gpu)]
        return FitAnswer(
            rows=len(profiles),
            gpus=sorted({profile.gpu for profile in profiles}),
            seconds=round(time.monotonic() - began, 1),
            mape={},
            metrics=[],
            excluded={},
            corrected={calibration.gpu: calibration.count for calibration in new},
            pipeline=question.pipeline,
            out=question.out,
        )

    def _profiles(self, question: FitQuestion, catalog: Catalog) -> list[Profile]:
        """Of the data; says what is left out."""
        profiles, left_out = load_training_data(question.data, catalog)
        for sentence in left_out:
            self._settings.note(sentence)
        return profiles
