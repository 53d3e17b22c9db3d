"""How good 90 % intervals are: how many true values they hold, how wide they are, and one score for both."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.scoring import LEVEL


@dataclass(frozen=True)
class IntervalScores:
    """Figures over the rows that have an interval; NaN where none has.

    Attributes:
        inside: share of true values inside.
        half_width: percent by which the upper end exceeds the prediction, median.
        score: mean of :func:`interval_score`.
    """

    inside: float
    half_width: float
    score: float


def score_intervals(log_error: NDArray[np.float64], half_width: NDArray[np.float64]) -> IntervalScores:
    """Score intervals of ± ``half_width`` around the log of the prediction, shape (n,) each; rows with a NaN are left out."""
    rows = np.isfinite(log_error) & np.isfinite(half_width)
    if not rows.any():
        return IntervalScores(math.nan, math.nan, math.nan)
    error, width = log_error[rows], half_width[rows]
    return IntervalScores(
        inside=float(np.mean(np.abs(error) <= width)),
        half_width=float(100 * np.expm1(np.median(width))),
        score=float(interval_score(error, width).mean()),
    )


def interval_score(log_error: NDArray[np.float64], half_width: NDArray[np.float64]) -> NDArray[np.float64]:
    """Width of each interval plus 2/α times what it misses the true value by, in log seconds, shape (n,); α is 0.1.

    The interval score of Gneiting & Raftery 2007, eq. 43 (after Winkler 1972): smaller is better, and only honest intervals are
    best on average. A constant width of the right coverage loses to widths that follow the errors.
    """
    missed = np.maximum(np.abs(log_error) - half_width, 0.0)
    scores: NDArray[np.float64] = 2 * half_width + 2 / (1 - LEVEL) * missed
    return scores


def fold_wise(log_error: NDArray[np.float64], folds: NDArray[np.intp], answers: Answers) -> NDArray[np.float64]:
    """Half-widths in log seconds, shape (n,), each from the errors of the same cell in all other folds; NaN without any."""
    widths = np.full(len(log_error), np.nan)
    for cell in np.unique(answers.cells):
        for fold in np.unique(folds):
            of_cell = (answers.cells == cell) & np.isfinite(log_error)
            here, others = np.flatnonzero((folds == fold) & of_cell), np.flatnonzero((folds != fold) & of_cell)
            if here.size and others.size:
                interval = ScaledInterval.of_errors(
                    log_error[others] / answers.scale[others], answers.groups[others], "other folds"
                )
                widths[here] = interval.multiple * answers.scale[here]
    return widths


def constant_width(log_error: NDArray[np.float64], folds: NDArray[np.intp], answers: Answers) -> NDArray[np.float64]:
    """Calibrate in the same way, as if every answer were equally sure: what intervals that follow the errors must beat."""
    return fold_wise(log_error, folds, replace(answers, scale=np.ones(len(log_error)), cells=np.full(len(log_error), "any")))
