"""How well forms predict networks that they were not fitted on: protocols, and the figures of the paper's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.metrics import PHASES
from epochcast.analyzer.errors import InputError
from epochcast.regressor.scoring import Scores, score
from lab.evaluate.common import HeldOut, Progress, Rows, Split, hold_out, random_folds

ARCHITECTURE_FOLDS = 12
"""By choice: every network is predicted by a fit on eleven twelfths of the others."""

_SEED = 0

FitPredict = Callable[[pd.DataFrame, pd.DataFrame, str], NDArray[np.float64]]
"""Fits points of one device and precision (first) and returns the seconds of others (second) in a phase (third), shape (n,)."""

Folds = NDArray[np.str_]
"""Label of the fold in which each row is predicted, shape (n,)."""


@dataclass(frozen=True)
class Figures(Scores):
    """``Scores``, and ``nrmse``: the RMSE over the range of the measured seconds that were answered, as in Tables 1 to 3."""

    nrmse: float


Answers = HeldOut[Figures]
"""A phase as a form predicts it, in seconds."""


def figures(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> Figures:
    """Compare seconds, shape (n,) each; NaN in ``predicted`` is a row without an answer."""
    scores = score(measured, predicted)
    answered = measured[np.isfinite(predicted)]
    spread = float(np.ptp(answered)) if len(answered) else 0.0
    return Figures(**vars(scores), nrmse=scores.rmse / spread if spread > 0 else float("nan"))


def cell_names(points: pd.DataFrame) -> NDArray[np.str_]:
    """Device and precision of each row, shape (n,): each has its own coefficients."""
    return (points["device"] + " " + points["precision"]).to_numpy(dtype=np.str_)


def measured_phases(points: pd.DataFrame) -> list[str]:
    """Phases that were measured of any point, in the order of ``PHASES``.

    Raises:
        InputError: none was.
    """
    phases = [phase for phase in PHASES if bool((points[f"{phase}_seconds"] > 0).any())]
    if not phases:
        raise InputError("no point has a measured phase; give a table with seconds")
    return phases


def leave_one_family_out(points: pd.DataFrame) -> Folds:
    """A fold per family."""
    return points["family"].to_numpy(dtype=np.str_)


def leave_one_model_out(points: pd.DataFrame) -> Folds:
    """A fold per network, whose blocks leave with it, as in section 4 of the paper; its copies under other names stay."""
    return points["network"].to_numpy(dtype=np.str_)


def leave_architectures_out(points: pd.DataFrame) -> Folds:
    """Twelve folds of architectures at random, always the same: of one name, or with equally many weights and layers.

    So a network under a second name, or trained on other images, is not fitted on; a deeper one of the same design may be.
    """
    return random_folds(_architectures(points), ARCHITECTURE_FOLDS, _SEED)


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame], Folds]] = {
    "family": leave_one_family_out,
    "architecture": leave_architectures_out,
    "model": leave_one_model_out,
}
"""Networks that leave together, so that nothing is predicted by a fit on itself or its like."""


def folds_of(points: pd.DataFrame, protocol: str) -> Folds:
    """Folds of points of one or several devices, by the name of the protocol.

    Raises:
        InputError: all points would leave together.
    """
    folds = PROTOCOLS[protocol](points)
    if len(set(folds.tolist())) < 2:
        leaving = {"family": "one family", "architecture": "one architecture", "model": "one network"}[protocol]
        raise InputError(
            f"all {len(points)} points are of {leaving} ({folds[0]}), so none is left to fit on; give more networks"
        )
    return folds


def cross_validate(
    points: pd.DataFrame, phase: str, fit_predict: FitPredict, protocol: str, progress: Progress | None = None
) -> Answers:
    """Predict each point by a fit on the points of the same device and precision that are in other folds.

    Args:
        points: as of ``metrics.py``; those in which the phase was not measured are passed over.
        phase: one of ``PHASES``.
        fit_predict: the form.
        protocol: one of ``PROTOCOLS``.
        progress: called with the fit at work.

    Raises:
        InputError: the phase was not measured, everything would leave together, or no fold could be fitted.
    """
    measured = _measured(points, phase)
    folds, cells = folds_of(measured, protocol), cell_names(measured)
    splits = [
        Split((cells == cell) & (folds != fold), {fold: (cells == cell) & (folds == fold)})
        for cell, fold in sorted(set(zip(cells.tolist(), folds.tolist(), strict=True)))
    ]
    return _held_out(measured, measured, phase, splits, fit_predict, progress)


def train_and_test(train: pd.DataFrame, test: pd.DataFrame, phase: str, fit_predict: FitPredict) -> Answers:
    """Fit on ``train`` only; a tested point is predicted by the fit of its device and precision, or by the only fit.

    Raises:
        InputError: the phase was not measured in one of them, or no tested point could be predicted.
    """
    train, test = _measured(train, phase), _measured(test, phase)
    fitted, tested = cell_names(train), cell_names(test)
    only = len(set(fitted.tolist())) == 1
    splits = [Split((fitted == cell) | only, {"test": tested == cell}) for cell in np.unique(tested)]
    return _held_out(train, test, phase, splits, fit_predict, None)


def _measured(points: pd.DataFrame, phase: str) -> pd.DataFrame:
    measured = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    if measured.empty:
        there = ", ".join(measured_phases(points))
        raise InputError(f"none of the {len(points)} points has a measured {phase} time; measured: {there}")
    return measured


def _held_out(
    train: pd.DataFrame,
    test: pd.DataFrame,
    phase: str,
    splits: Sequence[Split],
    fit_predict: FitPredict,
    progress: Progress | None,
) -> Answers:
    from threadpoolctl import threadpool_limits

    def predict(fitted: Rows, held_out: Rows) -> NDArray[np.float64]:
        if not fitted.any():
            raise InputError(f"no points of {cell_names(test[held_out])[0]} are left to fit on; measure more networks on it")
        with threadpool_limits(1):  # matrices are small: threads that wait for each other take five times as long when busy
            return fit_predict(train[fitted].reset_index(drop=True), test[held_out].reset_index(drop=True), phase)

    measured = test[f"{phase}_seconds"].to_numpy(dtype=np.float64)
    of_phase = None if progress is None else lambda line: progress(f"{phase}: {line}")
    return hold_out(test, measured, splits, predict, figures, of_phase)


def _architectures(points: pd.DataFrame) -> NDArray[np.int_]:
    """Number of each row's architecture from 0, shape (n,): joined by name, and by weights and layers of whole networks."""
    of_network = points["block"] == ""
    names, number = np.unique(points["network"].to_numpy(dtype=np.str_), return_inverse=True)
    parent = list(range(len(names)))

    def root(member: int) -> int:
        while parent[member] != member:
            member = parent[member]
        return member

    first: dict[tuple[float, float], int] = {}
    sizes = zip(number[of_network], points["weights"][of_network], points["layers"][of_network], strict=True)
    for member, weights, layers in sizes:
        other = first.setdefault((weights, layers), int(member))
        parent[root(int(member))] = root(other)
    roots = np.array([root(member) for member in range(len(names))])
    architectures: NDArray[np.int_] = np.unique(roots, return_inverse=True)[1][number]
    return architectures
