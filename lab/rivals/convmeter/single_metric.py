"""Baselines of Fig. 2: FLOPs, inputs or outputs alone, and a constant, by ordinary least squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms import SHORTEST, ordinary
from epochcast.analyzer.errors import InputError


class SingleMetric:
    """Seconds = c1·b·metric + c2.

    Args:
        column: one of ``metrics.PER_IMAGE``.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.coefficients: NDArray[np.float64] = np.zeros(2)

    @classmethod
    def of(cls, column: str) -> Callable[[str], Self]:
        """A form that ignores the phase."""
        return lambda phase: cls(column)

    def fit(self, points: pd.DataFrame, seconds: NDArray[np.float64]) -> Self:
        """Fit two coefficients; fewer points raise InputError."""
        if len(points) < 2:
            raise InputError(f"{len(points)} points are too few for a line; measure 2 or more")
        self.coefficients = ordinary(self._terms(points), seconds)
        return self

    def predict(self, points: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds, shape (n,)."""
        return np.maximum(self._terms(points) @ self.coefficients, SHORTEST)

    def _terms(self, points: pd.DataFrame) -> NDArray[np.float64]:
        metric = (points["batch"] * points[self.column]).to_numpy(dtype=float)
        return np.stack([metric, np.ones(len(points))], axis=1)
