"""Measured beside predicted occupancies, and the error figures of section IV-C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .....regressor.scoring import Scores, score

SIZE_EDGES = (0, 25, 50, 100, 200, 400, 800)
"""Of the bins by nodes and by edges, as in Fig. 5, whose own are not told; the last has no upper end."""

_WHOLE = ("network", "family", "gpu", "precision", "batch")


@dataclass(frozen=True)
class Figures(Scores):
    """``Scores``, and what the paper calls them: ``mre`` in percent (equal to ``mape``) and ``mse`` of ratios 0..1."""

    mre: float
    mse: float


def figures(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> Figures:
    """Compare ratios, shape (n,) each; NaN in ``predicted`` is a row without an answer."""
    scores = score(measured, predicted)
    return Figures(**vars(scores), mre=scores.mape, mse=scores.rmse**2)


@dataclass(frozen=True)
class Answers:
    """What one predictor says of the tested rows.

    Attributes:
        points: tested rows, with ``nodes`` and ``edges``; index from 0.
        measured, predicted: ratios, shape (n,); predicted NaN where there is no answer.
        tests: name of the test that each row belongs to, shape (n,).
        reason: why a row has no answer, the first of them; empty if all have.
    """

    points: pd.DataFrame
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    tests: NDArray[np.str_]
    reason: str = ""

    @property
    def figures(self) -> Figures:
        """Error figures over all rows."""
        return figures(self.measured, self.predicted)

    @property
    def spread(self) -> float:
        """Standard deviation of the tests' MRE, percent; NaN with less than two."""
        known = [one.mre for one in self.by_test().values() if np.isfinite(one.mre)]
        return float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")

    def by_test(self) -> dict[str, Figures]:
        """Error figures of each test, such as ``seen`` and ``unseen``."""
        return self._by(pd.Series(self.tests))

    def by(self) -> Mapping[str, Mapping[str, Figures]]:
        """Error figures by what the rows differ in; nodes and edges in the bins of :data:`SIZE_EDGES`."""
        told = {name: self._by(self.points[name]) for name in _WHOLE}
        return told | {name: self._by(_bins(self.points[name])) for name in ("nodes", "edges")}

    def _by(self, keys: pd.Series) -> dict[str, Figures]:
        groups = keys.groupby(keys, observed=True, sort=True).indices
        return {str(name): figures(self.measured[rows], self.predicted[rows]) for name, rows in groups.items()}


def _bins(sizes: pd.Series) -> pd.Series:
    """``25-49`` and so on, in the order of size."""
    ends = [*(f"{low}-{high - 1}" for low, high in pairwise(SIZE_EDGES)), f"{SIZE_EDGES[-1]}+"]
    return pd.cut(sizes, [*SIZE_EDGES, np.inf], right=False, labels=ends)
