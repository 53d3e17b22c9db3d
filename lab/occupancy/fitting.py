"""Fitting a predictor of SM occupancy, SM activity and peak memory to measured trainings."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from epochcast.analyzer.backends.occupancy.answer import Errors, FittedModel
from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.analyzer.backends.occupancy.predictor import RATIOS, OccupancyPredictor
from epochcast.analyzer.backends.occupancy.step_features import FittedRange, kind_of, sizes_of, words_of
from epochcast.regressor.scoring import FEWEST_ERRORS, absolute_percentage_errors, conformal_quantile
from lab.evaluate.common import Progress, leave_each_out, random_folds
from lab.evaluate.occupancy_protocols import cross_validate
from lab.occupancy.models import FittedTrees
from lab.occupancy.peak_memory_fit import fit_peak_memory
from lab.occupancy.training_jobs import TrainingJobs

FOLDS = 8
"""Groups of architectures that are left out in turn to see the errors on new ones: one more fit for each."""


def fit_predictor(jobs: TrainingJobs, seed: int = 0, progress: Progress | None = None) -> OccupancyPredictor:
    """Fit on all rows, after fits that leave groups of architectures out, to see how far off it is on new ones.

    Args:
        jobs: measured trainings. A label of too few to leave architectures out is not fitted: no range could be given.
        seed: of the trees.
        progress: called with what is at work.

    Raises:
        InputError: there are too few rows.
    """
    fitted, rows, errors = {}, {}, {}
    for label in RATIOS:
        own = jobs.labelled(label)
        groups = own.points["architecture"].to_numpy(dtype=np.str_)
        if len(set(groups)) < 2 or len(groups) < FEWEST_ERRORS:
            continue
        say = None if progress is None else partial(_of_label, progress, label)
        splits = leave_each_out(random_folds(groups, FOLDS, seed=0))
        answers = cross_validate(own, label, partial(FittedTrees, seed), splits, say)
        errors[label] = _errors(answers.measured, answers.predicted)
        fitted[label] = FittedTrees(seed).fit(own.samples, own.points[label].to_numpy(dtype=float)).fitted
        rows[label] = len(own.samples)
    if progress is not None:
        progress("peak_memory: fitting")
    memory = fit_peak_memory(jobs)
    ran = jobs.labelled("peak_memory")
    rows["peak_memory"] = len(ran.samples)
    facts = FittedModel(gpus=sorted(set(ran.points["gpu"])), rows=rows, errors=errors)
    return OccupancyPredictor(facts, range_of(ran.samples), fitted, memory)


def _errors(measured: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any]) -> Errors:
    answered = np.isfinite(predicted)
    return Errors(
        rows=int(answered.sum()),
        mape=float(absolute_percentage_errors(measured, predicted).mean()),
        factor=float(np.exp(conformal_quantile(np.log(measured[answered] / predicted[answered])))),
    )


def _of_label(progress: Progress, label: str, line: str) -> None:
    progress(f"{label}: {line}")


def range_of(samples: Iterable[Sample]) -> FittedRange:
    """Look through samples."""
    words: set[str] = set()
    ranges: dict[str, dict[str, tuple[float, float]]] = {}
    for sample in samples:
        words.update(words_of(sample))
        own = ranges.setdefault(kind_of(sample), {})
        for name, value in sizes_of(sample).items():
            least, most = own.get(name, (value, value))
            own[name] = min(least, value), max(most, value)
    return FittedRange(tuple(sorted(words)), ranges)
