"""How well models answer for trainings that DCGM measured: which networks leave together, and error figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.regressor.scoring import Scores, score
from lab.evaluate.common import HeldOut, Progress, Rows, Split, hold_out, leave_each_out, random_folds
from lab.occupancy.models import Model
from lab.occupancy.peak_memory_fit import fit_peak_memory
from lab.occupancy.training_jobs import TrainingJobs

FOLDS = 8
"""Of equal networks; by choice."""

BEYOND = 0.75
"""Share of the rows that a fit sees where the deepest or widest networks are left out; by choice."""

Answers = HeldOut[Scores]
"""What a model says of trainings: ratios 0..1, or bytes."""


def _beyond(column: str) -> Callable[[pd.DataFrame, int, int], list[Split]]:
    def splits(points: pd.DataFrame, folds: int, seed: int) -> list[Split]:
        values = points[column].to_numpy(dtype=float)
        train = values <= np.quantile(values, BEYOND)
        return [Split(train, {f"{column} beyond {values[train].max():g}": ~train})]

    return splits


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame, int, int], list[Split]]] = {
    "layers": lambda points, folds, seed: leave_each_out(random_folds(points["layers"].to_numpy(dtype=np.str_), folds, seed)),
    "architecture": lambda points, folds, seed: leave_each_out(points["architecture"].to_numpy(dtype=np.str_)),
    "depth": _beyond("depth"),
    "width": _beyond("width"),
}
"""Points, number of folds (for ``layers``) and seed to fits; equal networks are never on both sides."""


def cross_validate(
    jobs: TrainingJobs, label: str, make: Callable[[], Model], splits: Sequence[Split], progress: Progress | None = None
) -> Answers:
    """Fit again for each split and predict the rows that it tests; ``jobs`` all have the label.

    Raises:
        InputError: no row could be predicted.
    """
    return _held_out(jobs, jobs, label, make, splits, progress)


def train_and_test(train: TrainingJobs, test: TrainingJobs, label: str, make: Callable[[], Model]) -> Answers:
    """Fit on trainings that have the label, and predict others that have it.

    Raises:
        InputError: it could not be fitted, or there is no row to test.
    """
    if not len(test.samples):
        raise InputError(f"no row of the test table has a {label} to score")
    split = Split(np.ones(len(train.samples), dtype=bool), {"test": np.ones(len(test.samples), dtype=bool)})
    return _held_out(train, test, label, make, [split], None)


@dataclass(frozen=True)
class OutOfMemory:
    """How well it is foreseen which of n trainings run out of memory: percent of those that did, and of the warnings."""

    n: int
    crashed: int
    recall: float
    precision: float


def peak_memory(
    known: TrainingJobs, tested: TrainingJobs, splits: Sequence[Split] | None, progress: Progress | None = None
) -> tuple[Answers, OutOfMemory]:
    """Peak memory of the trainings that ran to their end, and which did not, both by ``PeakMemory``.

    Args:
        known: to fit on; the crashed ones, too.
        tested: the same table, or another without ``splits``.
        splits: of all rows of ``tested``.
        progress: called with the fit at work.

    Raises:
        InputError: it could not be fitted.
    """
    risk = np.full(len(tested.samples), np.nan)
    full_split = Split(np.ones(len(known.samples), dtype=bool), {"test": np.ones(len(tested.samples), dtype=bool)})

    def predict(train: Rows, test: Rows) -> NDArray[np.float64]:
        peak, _, _, risk[test] = fit_peak_memory(known.only(train)).predict(list(compress(tested.samples, test)))
        return np.asarray(peak)

    measured = tested.points["peak_memory"].to_numpy(dtype=float)
    answers = hold_out(tested.points, measured, [full_split] if splits is None else splits, predict, score, progress)
    scored = np.isfinite(risk)
    crashed, warned = ~tested.points["fits"].to_numpy(dtype=bool)[scored], risk[scored] > 0.5
    both = int((crashed & warned).sum())
    counts = [int(rows.sum()) for rows in (crashed, warned)]
    shares = [100 * both / count if count else float("nan") for count in counts]
    return answers.only(answers.points["fits"].to_numpy(dtype=bool)), OutOfMemory(int(scored.sum()), counts[0], *shares)


def _held_out(
    known: TrainingJobs,
    tested: TrainingJobs,
    label: str,
    make: Callable[[], Model],
    splits: Sequence[Split],
    progress: Progress | None,
) -> Answers:
    labels = known.points[label].to_numpy(dtype=float)

    def predict(train: Rows, test: Rows) -> NDArray[np.float64]:
        model = make().fit(list(compress(known.samples, train)), labels[train])
        return model.predict(list(compress(tested.samples, test)))

    return hold_out(tested.points, tested.points[label].to_numpy(dtype=float), splits, predict, score, progress)
