"""What is fitted on and what is tested; and predictions of all that is tested, by fits that never saw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from lab.evaluate.common.held_out import FiguresT, HeldOut

Rows = NDArray[np.bool_]
"""Which rows of a table, mask of shape (n,)."""

Progress = Callable[[str], object]


@dataclass(frozen=True)
class Split:
    """One fit.

    Attributes:
        train: rows that are fitted on, of the tested table or of another.
        tests: rows of the tested table that are predicted, by the name of the test; none is fitted on.
    """

    train: Rows
    tests: Mapping[str, Rows]


def leave_each_out(groups: NDArray[np.str_]) -> list[Split]:
    """Each group is predicted by a fit on all others; ``groups`` names the group of each row, shape (n,)."""
    return [Split(groups != name, {str(name): groups == name}) for name in np.unique(groups)]


def random_folds(groups: NDArray[np.str_] | NDArray[np.int_], count: int, seed: int) -> NDArray[np.str_]:
    """Deal whole groups to folds at random, about equally many to each.

    Args:
        groups: the group of each row, shape (n,).
        count: how many folds, at most one for each group.
        seed: of the draw.

    Returns:
        ``fold 1``, ``fold 2``… for each row, shape (n,).
    """
    names, number = np.unique(groups, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    fold_of = np.empty(len(names), dtype=int)
    for fold, members in enumerate(np.array_split(shuffled, min(count, len(names))), start=1):
        fold_of[members] = fold
    return np.array([f"fold {fold}" for fold in fold_of[number]], dtype=np.str_)


def hold_out(
    points: pd.DataFrame,
    measured: NDArray[np.float64],
    splits: Sequence[Split],
    fit_predict: Callable[[Rows, Rows], NDArray[np.float64]],
    figures_of: Callable[[NDArray[np.float64], NDArray[np.float64]], FiguresT],
    progress: Progress | None = None,
) -> HeldOut[FiguresT]:
    """Fit again for each split and predict the rows that it tests.

    A fit that raises InputError, because too little is left for it, leaves its rows without an answer; the others may do.

    Args:
        points: the tested table, index from 0, n rows.
        measured: of each row, shape (n,).
        splits: a row that several of them test appears several times in the answer, one that none tests not at all.
        fit_predict: fits on the first rows and predicts the second ones, an array of as many.
        figures_of: as of :class:`.HeldOut`.
        progress: called with what is at work before each fit.

    Raises:
        InputError: no row could be predicted.
    """
    rows, predicted, tests, reasons = [], [], [], []
    for number, split in enumerate(splits, start=1):
        if progress is not None:
            progress(f"fit {number} of {len(splits)}")
        names = np.full(len(points), "", dtype=object)
        for name, own in split.tests.items():
            names[own] = name
        tested = names != ""
        rows.append(np.flatnonzero(tested))
        tests.append(names[tested])
        try:
            predicted.append(fit_predict(split.train, tested))
        except InputError as error:
            reasons.append(str(error))
            predicted.append(np.full(len(rows[-1]), np.nan))
    order = np.argsort(np.concatenate(rows), kind="stable")
    places, answers = np.concatenate(rows)[order], np.concatenate(predicted)[order]
    if not np.isfinite(answers).any():
        raise InputError(
            reasons[0] if reasons else f"none of the {len(places)} rows could be predicted; give more rows to fit on"
        )
    return HeldOut(
        points.iloc[places].reset_index(drop=True),
        measured[places],
        answers,
        np.concatenate(tests)[order].astype(np.str_),
        figures_of,
        reasons[0] if reasons else "",
    )
