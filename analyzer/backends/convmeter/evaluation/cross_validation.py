"""Predictions of points by fits that never saw them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import InputError
from ..points import PHASES
from .answers import Answers, cell_names
from .protocols import folds_of

FitPredict = Callable[[pd.DataFrame, pd.DataFrame, str], NDArray[np.float64]]
"""Fits points of one device and precision (first) and returns the seconds of others (second) in a phase (third), shape (n,)."""

Progress = Callable[[str], object]


def measured_phases(points: pd.DataFrame) -> list[str]:
    """Phases that were measured of any point, in the order of ``PHASES``.

    Raises:
        InputError: none was.
    """
    phases = [phase for phase in PHASES if bool((points[f"{phase}_seconds"] > 0).any())]
    if not phases:
        raise InputError("no point has a measured phase; give a table with seconds in it")
    return phases


def cross_validate(
    points: pd.DataFrame, phase: str, fit_predict: FitPredict, protocol: str, progress: Progress | None = None
) -> Answers:
    """Predict each point by a fit on the points of the same device and precision that are in other folds.

    Args:
        points: as of ``points.py``; those in which the phase was not measured are passed over.
        phase: one of ``PHASES``.
        fit_predict: the form.
        protocol: one of ``PROTOCOLS``.
        progress: told the fold at work.

    Raises:
        InputError: the phase was not measured, everything would leave together, or no fold could be fitted.
    """
    asked = _measured(points, phase)
    folds = folds_of(asked, protocol)
    predicted, reasons = np.full(len(asked), np.nan), []
    cells = cell_names(asked)
    work = sorted(set(zip(cells.tolist(), folds.tolist(), strict=True)))
    for done, (cell, fold) in enumerate(work):
        if progress is not None:
            progress(f"{phase}: {cell}, fold {done + 1} of {len(work)}")
        left_out, others = (cells == cell) & (folds == fold), (cells == cell) & (folds != fold)
        try:
            predicted[left_out] = _fitted(asked[others], asked[left_out], phase, fit_predict)
        except InputError as error:  # too little is left in this fold; the others may do
            reasons.append(str(error))
    return _answered(asked, phase, predicted, folds, reasons)


def train_and_test(train: pd.DataFrame, test: pd.DataFrame, phase: str, fit_predict: FitPredict) -> Answers:
    """Fit on ``train`` only; a tested point is predicted by the fit of its device and precision, or by the only one there is.

    Raises:
        InputError: the phase was not measured in one of them, or no tested point could be predicted.
    """
    known, asked = _measured(train, phase), _measured(test, phase)
    cells, tested = cell_names(known), cell_names(asked)
    only = len(set(cells.tolist())) == 1
    predicted, reasons = np.full(len(asked), np.nan), []
    for cell in sorted(set(tested.tolist())):
        fitted = known if only else known[cells == cell]
        try:
            predicted[tested == cell] = _fitted(fitted, asked[tested == cell], phase, fit_predict)
        except InputError as error:
            reasons.append(str(error))
    return _answered(asked, phase, predicted, np.full(len(asked), "test"), reasons)


def _measured(points: pd.DataFrame, phase: str) -> pd.DataFrame:
    asked = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    if asked.empty:
        there = ", ".join(measured_phases(points))
        raise InputError(f"the {phase} time was measured of none of the {len(points)} points; measured are: {there}")
    return asked


def _fitted(train: pd.DataFrame, test: pd.DataFrame, phase: str, fit_predict: FitPredict) -> NDArray[np.float64]:
    from threadpoolctl import threadpool_limits

    if train.empty:
        raise InputError(f"no points of {cell_names(test)[0]} are there to fit on; measure more networks on it")
    with threadpool_limits(1):  # matrices are small: threads that wait for each other take five times as long on a busy machine
        return fit_predict(train.reset_index(drop=True), test.reset_index(drop=True), phase)


def _answered(
    asked: pd.DataFrame, phase: str, predicted: NDArray[np.float64], folds: NDArray[np.str_], reasons: list[str]
) -> Answers:
    if not np.isfinite(predicted).any():
        raise InputError(reasons[0] if reasons else f"the {phase} time of no point could be predicted; measure more networks")
    measured = asked[f"{phase}_seconds"].to_numpy(dtype=np.float64)
    return Answers(asked, measured, predicted, folds, reasons[0] if reasons else "")
