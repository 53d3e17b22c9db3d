"""``epochcast fit regressor``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from epochcast.analyzer.answers.answer_schema import Recipe
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.regressor import LatencyPredictor, PaperPredictor, load_catalog
from epochcast.regressor.manifest import PaperManifest, RegressorManifest
from epochcast.regressor.model_folder import require_place
from epochcast.regressor.precision import Precision

_NEW = {"P2": "on a new workload", "P3": "on a new model", "P4": "on a new GPU"}


class FitQuestion(Question):
    """What to fit the latency predictor to."""

    data: Annotated[list[Path], Option(metavar="PATH")] = Field(
        description="Corpus: a campaign's folder, CSV, a folder of profiles, or of traces with label files."
    )
    precision: Annotated[Precision | None, Option(default="what the telemetry shows, else unknown")] = Field(
        None, description="Precision of jobs that do not name theirs; tf32: FP32 code; fp32: FP32 with TF32 off."
    )
    recipe: Recipe = Field("default", description="Epochcast's own predictor, or the black-box paper's.")
    out: Annotated[Path, Option(metavar="DIR"), Field(description="Folder to write the model to.")]


class FitAnswer(Answer):
    """What was fitted, and where it is; errors by protocol, percent, and metrics that are not used with the reason."""

    rows: int
    gpus: list[str]
    seconds: float
    mape: dict[str, float]
    metrics: list[str]
    excluded: dict[str, str]
    recipe: Annotated[Recipe, Field(exclude=True)]
    out: Annotated[Path, Field(exclude=True)]

    @property
    def text(self) -> str:
        """Why metrics are not used is said of ours alone: the paper's are features, a hundred of them."""
        errors = ", ".join(f"{error:.1f} % {_NEW[protocol]}" for protocol, error in self.mape.items())
        lines = [
            f"{self.out}: fitted on {self.rows} profiles of {', '.join(self.gpus)} in {self.seconds} s",
            f"mean error on left-out data: {errors}",
        ]
        if not self.metrics:
            return "\n".join([*lines, "metrics: none, because too few profiles have telemetry; only GPU speeds were learnt"])
        lines.append(f"metrics: {', '.join(self.metrics)}")
        if self.recipe == "default":
            lines += [f"not used: {name} ({reason})" for name, reason in self.excluded.items()]
        return "\n".join(lines)


class RegressorFit(Plugin):
    """Fits the black-box latency predictor."""

    name = "regressor"
    summary = "Fit the black-box latency predictor to profiles of several GPUs."
    manual = """Fit the black-box latency predictor to profiles of several GPUs.

    \b
    Example: epochcast fit regressor --data cloud_hw_trainpred.csv \\
                 --out my-model
             epochcast fit regressor --data corpus-t4/ --data corpus-l4/ \\
                 --out my-model
             epochcast fit regressor --data traces/ --out my-model
             epochcast fit regressor --recipe paper \\
                 --data cloud_hw_trainpred.csv --out my-paper

    Runs on a CPU, or on a GPU that is not in the catalogue, are skipped and listed. In a folder of traces each NAME.parquet or
    NAME.csv has a NAME.json with its "workload", its "group" and, if known, its true epochs ("epoch_starts", "epoch_ends",
    "training"); otherwise they are detected. The paper's recipe takes a few minutes: it is fitted a dozen times to get
    intervals, which the paper does not provide.
    """
    Question, Answer = FitQuestion, FitAnswer

    def answer(self, question: FitQuestion) -> FitAnswer:
        """Fit, and write the model's folder; raises InputError."""
        began, ours = time.monotonic(), question.recipe == "default"
        catalog = load_catalog(self._settings.gpus)
        require_place(question.out, RegressorManifest if ours else PaperManifest)  # before a fit of minutes
        profiles, left_out = load_training_data(question.data, catalog)
        for sentence in left_out:
            self._settings.note(sentence)
        profiles = [replace(profile, precision=profile.precision or question.precision) for profile in profiles]
        kind = LatencyPredictor if ours else PaperPredictor
        predictor = kind.fit(profiles, catalog, progress=self._settings.report)
        predictor.save(question.out)
        seconds = round(time.monotonic() - began, 1)
        metrics: Sequence[str] = ()
        excluded: Mapping[str, str] = {}
        if isinstance(predictor, PaperPredictor):
            measured, metrics, excluded = predictor.accuracy, predictor.metrics, predictor.recipe.excluded_
        else:
            measured, correction = predictor.reliability.accuracy, predictor.recipe.correction_
            if correction is not None:
                metrics, excluded = correction.features_.metrics, correction.features_.excluded
        return FitAnswer(
            rows=len(profiles),
            gpus=sorted({profile.gpu for profile in profiles}),
            seconds=seconds,
            mape={protocol: figures["mape"] for protocol, figures in measured.items()},
            metrics=list(metrics),
            excluded=dict(excluded),
            recipe=question.recipe,
            out=question.out,
        )
