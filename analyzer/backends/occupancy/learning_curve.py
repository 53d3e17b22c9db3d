"""How the error on new networks falls with more configurations, and with more networks, to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...evaluation import Progress, Split
from .evaluation import Answers, Make, cross_validate
from .labelled_samples import LabelledSamples

FOLDS = 5
"""Groups of networks that leave together where nothing else is asked for; each size takes so many fits per draw."""

DRAWS = 3

_LEAST = {"configurations": 16, "networks": 2}
_STEP = 2
"""Each size is twice the one before; the last is all that there is."""


@dataclass(frozen=True)
class CurvePoint:
    """Fits on so many rows or networks.

    Attributes:
        by: ``configurations``, drawn from all networks that stay; or ``networks``, each with all its configurations.
        size: how many; the most of any split where all are taken.
        mre, spread: percent, on networks that were left out: mean and standard deviation of draws; NaN of a single one.
        mse: of ratios 0..1, mean of draws.
        draws: random choices of what was fitted on; one where all are taken.
    """

    by: str
    size: int
    mre: float
    spread: float
    mse: float
    draws: int


def learning_curve(
    data: LabelledSamples,
    target: str,
    make: Make,
    splits: Sequence[Split],
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[list[CurvePoint], Answers]:
    """Fit on parts of what each split leaves in; the same rows are tested each time.

    Args:
        data: all rows.
        target: one of ``points.TARGETS``.
        make: the predictor.
        splits: by networks, as of :func:`.evaluation.leave_models_out`.
        draws: random choices per size.
        seed: of the choices.
        progress: told the fit at work.

    Returns:
        Points by ascending size, those by configurations first; and the answers of fits on all that the splits leave in. Draws
        of which not every fit succeeded are left out, and sizes without any draw.

    Raises:
        InputError: nothing could be fitted on all rows.
    """
    networks = data.points["network"].to_numpy(dtype=np.str_)
    whole = cross_validate(data, target, make, splits, progress)
    curve = []
    for by, choose in _CHOICES.items():
        largest = max(choose.count(split.train, networks) for split in splits)
        for size in _sizes(_LEAST[by], largest):
            told = []
            for draw in range(draws):
                if progress is not None:
                    progress(f"{size} {by}, draw {draw + 1} of {draws}")
                rng = np.random.default_rng([seed, size, draw])
                parts = [Split(choose.draw(split.train, networks, size, rng), split.tests) for split in splits]
                try:
                    figures = cross_validate(data, target, make, parts).figures
                except InputError:  # too few to fit this predictor on; more may do
                    continue
                if figures.n == whole.figures.n:  # else one of its fits failed, and the error would be of fewer rows
                    told.append(figures)
            if told:
                mres = [one.mre for one in told]
                spread = float(np.std(mres, ddof=1)) if len(mres) > 1 else float("nan")
                mse = float(np.mean([one.mse for one in told]))
                curve.append(CurvePoint(by, size, float(np.mean(mres)), spread, mse, len(told)))
        curve.append(CurvePoint(by, largest, whole.figures.mre, float("nan"), whole.figures.mse, 1))
    return curve, whole


@dataclass(frozen=True)
class _Choice:
    """How many there are among rows (mask) of these networks, and a random part of them."""

    count: Callable[[NDArray[np.bool_], NDArray[np.str_]], int]
    draw: Callable[[NDArray[np.bool_], NDArray[np.str_], int, np.random.Generator], NDArray[np.bool_]]


def _some_rows(train: NDArray[np.bool_], networks: NDArray[np.str_], size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    chosen = np.zeros(len(train), dtype=bool)
    chosen[rng.permutation(np.flatnonzero(train))[:size]] = True
    return chosen


def _some_networks(
    train: NDArray[np.bool_], networks: NDArray[np.str_], size: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = train & np.isin(networks, rng.permutation(np.unique(networks[train]))[:size])
    return chosen


_CHOICES = {
    "configurations": _Choice(lambda train, networks: int(train.sum()), _some_rows),
    "networks": _Choice(lambda train, networks: len(np.unique(networks[train])), _some_networks),
}


def _sizes(least: int, largest: int) -> Iterator[int]:
    """Those below the largest."""
    size = least
    while size < largest:
        yield size
        size *= _STEP
