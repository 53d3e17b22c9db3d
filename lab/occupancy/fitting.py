"""Fitting a predictor of SM occupancy, SM activity and peak memory to measured trainings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from epochcast.analyzer.backends.occupancy.answer import Errors, FittedModel
from epochcast.analyzer.backends.occupancy.fitted_range import FittedRange
from epochcast.analyzer.backends.occupancy.predictor import RATIOS, OccupancyPredictor
from epochcast.regressor.scoring import FEWEST_ERRORS, absolute_percentage_errors, conformal_quantile
from lab.evaluate.common import Progress, leave_each_out, random_folds
from lab.evaluate.occupancy_protocols import cross_validate
from lab.occupancy.models import DEFAULT_MODEL, Model, make
from lab.occupancy.peak_memory_fit import fit_peak_memory
from lab.occupancy.training_jobs import TrainingJobs

FOLDS = 8
"""Groups of architectures that are left out in turn to see the errors on new ones: one more fit for each."""


def fit_predictor(
    jobs: TrainingJobs,
    model: str = DEFAULT_MODEL,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> OccupancyPredictor:
    """Fit on all rows, after fits that leave groups of architectures out, to see how far off it is on new ones.

    Args:
        jobs: measured trainings.
        model: name in ``models.MODELS``, of SM occupancy and SM activity.
        settings: of the model, such as ``seed`` and ``epochs``.
        progress: called with what is at work.

    Raises:
        InputError: there are too few rows, or a library that the model needs is missing.
    """
    chosen = dict(settings or {})
    fitted, rows, errors = {}, {}, {}
    for label in RATIOS:
        own = jobs.labelled(label)
        if not own.samples:
            continue
        say = None if progress is None else partial(_of_label, progress, label)
        make_model = partial(unfitted, model, chosen, say)
        groups = own.points["architecture"].to_numpy(dtype=np.str_)
        if len(set(groups)) > 1 and len(groups) >= FEWEST_ERRORS:
            splits = leave_each_out(random_folds(groups, FOLDS, seed=0))
            answers = cross_validate(own, label, make_model, splits, say)
            errors[label] = _errors(answers.measured, answers.predicted)
        fitted[label] = make_model().fit(own.samples, own.points[label].to_numpy(dtype=float))
        rows[label] = len(own.samples)
    if progress is not None:
        progress("peak_memory: fitting")
    memory = fit_peak_memory(jobs)
    ran = jobs.labelled("peak_memory")
    rows["peak_memory"] = len(ran.samples)
    facts = FittedModel(model=model, settings=chosen, gpus=sorted(set(ran.points["gpu"])), rows=rows, errors=errors)
    return OccupancyPredictor(facts, FittedRange.of(ran.samples), fitted, memory)


def _errors(measured: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any]) -> Errors:
    answered = np.isfinite(predicted)
    return Errors(
        rows=int(answered.sum()),
        mape=float(absolute_percentage_errors(measured, predicted).mean()),
        factor=float(np.exp(conformal_quantile(np.log(measured[answered] / predicted[answered])))),
    )


def _of_label(progress: Progress, label: str, line: str) -> None:
    progress(f"{label}: {line}")


def unfitted(model: str, settings: Mapping[str, Any], progress: Progress | None = None) -> Model:
    """A model of ``models.MODELS`` with fields of ``models.ModelSettings``, which reports each epoch.

    Raises:
        InputError: there is none of this name, or a library that it needs is missing.
    """
    if progress is None:
        return make(model, **settings)
    say = progress
    return make(
        model, progress=lambda epoch, epochs, loss: say(f"{model}: epoch {epoch} of {epochs}, loss {loss:.4g}"), **settings
    )
