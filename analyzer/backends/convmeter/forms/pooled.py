"""``pooled``: kinds of layers with coefficients of their own, each drawn towards what all kinds have in common."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import InputError
from ..metrics import COMPUTING_KINDS, KINDS
from ..terms import compute_terms, exchange_terms, narrow_terms, network_terms, traffic_terms, update_terms
from .least_squares import SHORTEST, robust

Array = NDArray[np.float64]

_DRAW = 1.0
"""How strongly a kind's coefficient is drawn to the common one: being off by all of a point's seconds counts as that point's
being wrong by so much. Its square from 0.3 to 10 differs little on the public tables."""

_FEWEST = 5


class Pooled:
    """Partial pooling: with few networks it is the paper's form with traffic for inputs and outputs, with many one per kind.

    Seconds are a sum of b·FLOPs and b·traffic by kind of layer, b·Outputs and b·FLOPs of narrow convolutions, W, operators,
    a constant, and on several devices what exchanges gradients. All coefficients are 0 or more, the loss is robust
    (:func:`.least_squares.robust`), and (coefficient − common)² of each kind is added to it, once for FLOPs and once for
    traffic. So a kind that no measured network had is as fast as the others, where ``layers`` takes it for free.

    Args:
        phase: one of ``points.PHASES``.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.coefficients: Array = np.zeros(0)

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit on points and their seconds.

        Raises:
            InputError: there are too few points.
        """
        if len(points) < _FEWEST:
            raise InputError(f"{len(points)} points of the {self.phase} are too few to fit; measure {_FEWEST} or more")
        X = self._terms(points)
        scale = self._scale(X, seconds)
        kinds = 0 if self.phase == "update" else len(COMPUTING_KINDS) + len(KINDS)
        common = np.zeros((len(X), 2 if kinds else 0))  # these coefficients explain nothing themselves
        found = robust(np.c_[X / scale, common], seconds, _penalties(X.shape[1]) if kinds else np.zeros((0, X.shape[1])))
        self.coefficients = found[: X.shape[1]] / scale
        return self

    def predict(self, points: pd.DataFrame) -> Array:
        """Seconds, shape (n,)."""
        return np.maximum(self._terms(points) @ self.coefficients, SHORTEST)

    def state(self) -> dict[str, Any]:
        """Coefficients, in the order of the terms."""
        return {"coefficients": self.coefficients.tolist()}

    def restore(self, state: dict[str, Any]) -> Self:
        """Take coefficients of :meth:`state`."""
        self.coefficients = np.array(state["coefficients"], dtype=float)
        return self

    def _terms(self, points: pd.DataFrame) -> Array:
        if self.phase == "update":
            return np.concatenate([update_terms(points), exchange_terms(points)], axis=1)
        kinds = [compute_terms(points), traffic_terms(points)]
        return np.concatenate([*kinds, network_terms(points), narrow_terms(points), exchange_terms(points)], axis=1)

    def _scale(self, X: Array, seconds: Array) -> Array:
        """Per term what makes a coefficient of 1 explain all of a usual point; one for all FLOPs, one for all traffic."""
        shares = X / seconds[:, None]
        middle = np.median(shares, axis=0)
        each = np.where(middle > 0, middle, shares.mean(axis=0))
        if self.phase != "update":
            compute, kinds = len(COMPUTING_KINDS), len(COMPUTING_KINDS) + len(KINDS)
            each[:compute] = np.median(shares[:, :compute].sum(axis=1))
            each[compute:kinds] = np.median(shares[:, compute:kinds].sum(axis=1))
        return np.where(each > 0, each, 1.0)


def _penalties(terms: int) -> Array:
    """A row for each kind: its coefficient minus the common one of FLOPs, or of traffic; shape (kinds, terms + 2)."""
    compute, kinds = len(COMPUTING_KINDS), len(COMPUTING_KINDS) + len(KINDS)
    rows = np.zeros((kinds, terms + 2))
    rows[np.arange(kinds), np.arange(kinds)] = _DRAW
    rows[:compute, terms] = rows[compute:, terms + 1] = -_DRAW
    return rows
