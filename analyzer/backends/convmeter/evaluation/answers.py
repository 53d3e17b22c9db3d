"""Measured beside predicted seconds, and the error figures of Tables 1 to 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .....regressor.scoring import Scores, score


@dataclass(frozen=True)
class Figures(Scores):
    """``Scores``, and ``nrmse``: the RMSE over the range of the measured seconds that were answered, as in the paper."""

    nrmse: float


def figures(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> Figures:
    """Compare seconds, shape (n,) each; NaN in ``predicted`` is a row without an answer."""
    scores = score(measured, predicted)
    answered = measured[np.isfinite(predicted)]
    spread = float(np.ptp(answered)) if len(answered) else 0.0
    return Figures(**vars(scores), nrmse=scores.rmse / spread if spread > 0 else float("nan"))


def cell_names(points: pd.DataFrame) -> NDArray[np.str_]:
    """Device and precision of each row, shape (n,): what one set of coefficients holds for."""
    return (points["device"] + " " + points["precision"]).to_numpy(dtype=np.str_)


@dataclass(frozen=True)
class Answers:
    """One phase as one form predicts it.

    Attributes:
        points: rows that were asked, index from 0.
        measured, predicted: seconds, shape (n,); predicted NaN where there is no answer.
        folds: label of each row's fold, shape (n,).
        reason: why a row has no answer, the first of them; empty if all have.
    """

    points: pd.DataFrame
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    folds: NDArray[np.str_]
    reason: str = ""

    @property
    def figures(self) -> Figures:
        """Error figures over all rows."""
        return figures(self.measured, self.predicted)

    @property
    def spread(self) -> float:
        """Standard deviation of the folds' MAPE, percent; NaN with less than two folds."""
        mapes = [figures(self.measured[own], self.predicted[own]).mape for own in self._groups(self.folds).values()]
        known = [mape for mape in mapes if np.isfinite(mape)]
        return float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")

    def by(self, column: str) -> Mapping[str, Figures]:
        """Error figures of each value of a column of the points, numbers in their order."""
        values = self.points[column].to_numpy()
        return {
            f"{name:g}" if isinstance(name, float) else str(name): self._of(own) for name, own in self._groups(values).items()
        }

    def by_cell(self) -> Mapping[str, Figures]:
        """Error figures of each device at each precision."""
        return {name: self._of(own) for name, own in self._groups(cell_names(self.points)).items()}

    def only(self, rows: NDArray[np.bool_]) -> Answers:
        """Those of some rows, mask of shape (n,)."""
        kept = self.points[rows].reset_index(drop=True)
        return Answers(kept, self.measured[rows], self.predicted[rows], self.folds[rows], self.reason)

    def _of(self, rows: NDArray[np.bool_]) -> Figures:
        return figures(self.measured[rows], self.predicted[rows])

    @staticmethod
    def _groups(values: NDArray[Any]) -> dict[Any, NDArray[np.bool_]]:
        return {name: values == name for name in sorted(set(values.tolist()))}
