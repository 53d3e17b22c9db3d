"""How far off a predictor is on networks that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....regressor.scoring import FEWEST_ERRORS, absolute_percentage_errors, conformal_quantile
from .evaluation import FEWEST_NETWORKS, Make, cross_validate, leave_models_out
from .labelled_samples import LabelledSamples, Progress


@dataclass(frozen=True)
class Reliability:
    """Errors on networks that were left out.

    Attributes:
        networks: how many were told so.
        mre: mean relative error, percent.
        factor: nine of ten labels are within predicted / factor to predicted · factor.
    """

    networks: int
    mre: float
    factor: float


def reliability_of(
    data: LabelledSamples, target: str, make: Make, folds: int, progress: Progress | None = None
) -> Reliability | None:
    """Leave ``folds`` groups of networks out in turn; None where there are too few rows or networks, or ``folds`` is below 2.

    The rows of a network count one by one, though their errors are alike: for a network unlike all others the range is too
    narrow.

    Raises:
        InputError: the predictor could not be fitted on any part.
    """
    networks = int(data.points["network"].nunique())
    if folds < 2 or networks < FEWEST_NETWORKS:
        return None
    answers = cross_validate(data, target, make, leave_models_out(data.points, folds, seed=0), progress)
    told = np.isfinite(answers.predicted) & (answers.predicted > 0)
    if told.sum() < FEWEST_ERRORS:
        return None
    measured, predicted = answers.measured[told], answers.predicted[told]
    return Reliability(
        networks=int(answers.points["network"][told].nunique()),
        mre=float(absolute_percentage_errors(measured, predicted).mean()),
        factor=float(np.exp(conformal_quantile(np.log(measured / predicted)))),
    )
