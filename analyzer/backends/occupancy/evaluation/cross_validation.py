"""Predictions of rows by fits that never saw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError
from ..labelled_samples import LabelledSamples, Progress
from ..models import Model
from .answers import Answers
from .splits import Split

Make = Callable[[], Model]
"""A predictor that was not fitted yet."""


def cross_validate(
    data: LabelledSamples, target: str, make: Make, splits: Sequence[Split], progress: Progress | None = None
) -> Answers:
    """Fit anew for each split and predict the rows that it tests.

    Args:
        data: all rows.
        target: one of ``points.TARGETS``.
        make: the predictor.
        splits: no row is tested by two of them.
        progress: told the fit at work.

    Raises:
        InputError: no row could be predicted.
    """
    occupancies = data.occupancies(target)
    predicted = np.full(len(occupancies), np.nan)
    tests = np.full(len(occupancies), "", dtype=object)
    reasons: list[str] = []
    for done, split in enumerate(splits):
        if progress is not None:
            progress(f"fit {done + 1} of {len(splits)}")
        tested = np.logical_or.reduce(list(split.tests.values()))
        for name, rows in split.tests.items():
            tests[rows] = name
        known = np.flatnonzero(split.train)
        try:
            model = make().fit([data.samples[row] for row in known], occupancies[known])
            predicted[tested] = model.predict([data.samples[row] for row in np.flatnonzero(tested)])
        except InputError as error:  # too little is left in this split; the others may do
            reasons.append(str(error))
    return _answers(data, occupancies, predicted, tests, reasons)


def train_and_test(train: LabelledSamples, test: LabelledSamples, target: str, make: Make) -> Answers:
    """Fit on one table only and predict another.

    Raises:
        InputError: it could not be fitted.
    """
    model = make().fit(train.samples, train.occupancies(target))
    tests = np.full(len(test.samples), "test", dtype=object)
    return _answers(test, test.occupancies(target), model.predict(test.samples), tests, [])


def _answers(
    data: LabelledSamples,
    occupancies: NDArray[np.float64],
    predicted: NDArray[np.float64],
    tests: NDArray[np.object_],
    reasons: Sequence[str],
) -> Answers:
    asked = tests != ""
    if not np.isfinite(predicted[asked]).any():
        raise InputError(reasons[0] if reasons else "no row could be predicted; give more networks")
    points = data.points[asked].reset_index(drop=True)
    return Answers(points, occupancies[asked], predicted[asked], tests[asked].astype(np.str_), reasons[0] if reasons else "")
