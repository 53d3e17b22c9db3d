"""How the error on new networks falls with more configurations, and with more networks, to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...evaluation import Progress, Rows, Split
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
    units = {
        "configurations": np.arange(len(data.points)),
        "networks": data.points["network"].to_numpy(dtype=np.str_),
    }
    whole = cross_validate(data, target, make, splits, progress)
    curve = []
    for by, unit in units.items():
        largest = max(len(np.unique(unit[split.train])) for split in splits)
        for size in _sizes(_LEAST[by], largest):
            drawn = []
            for draw in range(draws):
                if progress is not None:
                    progress(f"{size} {by}, draw {draw + 1} of {draws}")
                rng = np.random.default_rng([seed, size, draw])
                parts = [Split(_some_of(unit, split.train, size, rng), split.tests) for split in splits]
                try:
                    figures = cross_validate(data, target, make, parts).figures
                except InputError:  # too few to fit this predictor on; more may do
                    continue
                if figures.n == whole.figures.n:  # else one of its fits failed, and the error would be of fewer rows
                    drawn.append(figures)
            if drawn:
                mres = [one.mre for one in drawn]
                spread = float(np.std(mres, ddof=1)) if len(mres) > 1 else float("nan")
                mse = float(np.mean([one.mse for one in drawn]))
                curve.append(CurvePoint(by, size, float(np.mean(mres)), spread, mse, len(drawn)))
        curve.append(CurvePoint(by, largest, whole.figures.mre, float("nan"), whole.figures.mse, 1))
    return curve, whole


def _some_of(unit: NDArray[Any], train: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Rows of ``train`` that belong to ``size`` random units, such as networks; ``unit`` names that of each row."""
    chosen: Rows = train & np.isin(unit, rng.permutation(np.unique(unit[train]))[:size])
    return chosen


def _sizes(least: int, largest: int) -> Iterator[int]:
    """Those below the largest."""
    size = least
    while size < largest:
        yield size
        size *= _STEP
