"""Rows that were tested: measured next to predicted, and the error figures overall, of each test and by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from epochcast.regressor.scoring import Scores

FiguresT = TypeVar("FiguresT", bound=Scores)


@dataclass(frozen=True)
class HeldOut(Generic[FiguresT]):
    """What one recipe predicts for rows that its fits did not see.

    Attributes:
        points: tested rows with what they can be grouped by; index from 0, n rows.
        measured, predicted: in one unit, shape (n,); predicted NaN where there is no answer.
        tests: name of the test, such as a fold, that each row belongs to, shape (n,).
        figures_of: error figures of measured and predicted, such as :func:`~epochcast.regressor.scoring.score`.
        reason: why a row has no answer, the first of them; empty if all have.
    """

    points: pd.DataFrame
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    tests: NDArray[np.str_]
    figures_of: Callable[[NDArray[np.float64], NDArray[np.float64]], FiguresT]
    reason: str = ""

    @property
    def figures(self) -> FiguresT:
        """Error figures over all rows."""
        return self.figures_of(self.measured, self.predicted)

    @property
    def spread(self) -> float:
        """Standard deviation of the tests' MAPE, percent; NaN with less than two."""
        known = [test.mape for test in self.by_test().values() if np.isfinite(test.mape)]
        return float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")

    def by_test(self) -> dict[str, FiguresT]:
        """Error figures of each test."""
        return self.by(self.tests)

    def by(self, keys: str | ArrayLike) -> dict[str, FiguresT]:
        """Error figures of each group, in the order of the groups; rows whose key is NaN are in none.

        Args:
            keys: a column of ``points``, or the key of each row, shape (n,).
        """
        values = pd.Series(self.points[keys] if isinstance(keys, str) else keys)
        groups = values.groupby(values, observed=True, sort=True).indices
        return {
            f"{key:g}" if isinstance(key, float) else str(key): self.figures_of(self.measured[rows], self.predicted[rows])
            for key, rows in groups.items()
        }

    def only(self, rows: NDArray[np.bool_]) -> HeldOut[FiguresT]:
        """Those of some rows, mask of shape (n,)."""
        return replace(
            self,
            points=self.points[rows].reset_index(drop=True),
            measured=self.measured[rows],
            predicted=self.predicted[rows],
            tests=self.tests[rows],
        )
