"""Cross-validation of a form within the points at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_MOST_FOLDS = 8
_MANY_POINTS = 300
_FOLDS_OF_MANY = 5
_FEWEST_GROUPS = 3


def folds(points: pd.DataFrame) -> Iterator[NDArray[np.bool_]]:
    """Masks of the points to leave out in turn, shape (n,) each: whole families, of about as many points each time.

    With fewer than three families whole networks leave, with fewer than three networks single points.
    """
    groups = np.arange(len(points))
    for column in ("family", "network"):
        if points[column].nunique() >= _FEWEST_GROUPS:
            groups = pd.factorize(points[column])[0]
            break
    sizes = np.bincount(groups)
    count = min(_FOLDS_OF_MANY if len(points) > _MANY_POINTS else _MOST_FOLDS, len(sizes))
    home, load = np.zeros(len(sizes), dtype=int), np.zeros(count)
    for group in np.argsort(-sizes, kind="stable"):
        home[group] = load.argmin()
        load[home[group]] += sizes[group]
    for fold in range(count):
        yield home[groups] == fold


def out_of_fold(
    points: pd.DataFrame,
    seconds: NDArray[np.float64],
    fit_predict: Callable[[pd.DataFrame, NDArray[np.float64], pd.DataFrame], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Predict each fold by a fit on the others.

    Args:
        points: shape (n, …).
        seconds: measured, shape (n,).
        fit_predict: fits points (first) with their seconds (second) and predicts others (third); shape (m,) or (m, k).
    """
    parts = [(left_out, fit_predict(points[~left_out], seconds[~left_out], points[left_out])) for left_out in folds(points)]
    answer = np.full((len(points), *parts[0][1].shape[1:]), np.nan)
    for left_out, predicted in parts:
        answer[left_out] = predicted
    return answer
