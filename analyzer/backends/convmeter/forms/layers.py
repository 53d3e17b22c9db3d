"""``layers``: a coefficient for the FLOPs and for the traffic of each kind of layer, fitted on relative errors."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.least_squares import SHORTEST, relative
from epochcast.analyzer.backends.convmeter.terms import (
    Columns,
    compute_terms,
    exchange_terms,
    network_terms,
    traffic_terms,
    update_terms,
)
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import Arrays

Array = NDArray[np.float64]
_FEWEST = 10


class Layers:
    """Kinds of layers differ in how fast their FLOPs and their traffic go; nothing constrains a kind that few networks have.

    Args:
        phase: one of ``points.PHASES``.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.coefficients: Array = np.zeros(0)

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit by non-negative least squares of relative errors.

        Raises:
            InputError: there are too few points.
        """
        if len(points) < _FEWEST:
            raise InputError(
                f"{len(points)} points of the {self.phase} are too few to fit kinds of layers; measure {_FEWEST} or more"
            )
        self.coefficients = relative(self._terms(points), seconds)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,)."""
        return np.maximum(self._terms(points) @ self.coefficients, SHORTEST)

    def arrays(self) -> dict[str, Array]:
        """Coefficients, in the order of the terms."""
        return {"coefficients": self.coefficients}

    def restore(self, arrays: Arrays) -> Self:
        """Take coefficients of :meth:`arrays`."""
        self.coefficients = arrays["coefficients"]
        return self

    def _terms(self, points: Columns) -> Array:
        if self.phase == "update":
            return np.concatenate([update_terms(points), exchange_terms(points)], axis=1)
        parts = [compute_terms(points), traffic_terms(points), network_terms(points), exchange_terms(points)]
        return np.concatenate(parts, axis=1)
