"""``pooled``: a coefficient for each kind of layer, drawn towards the common one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.layers import Layers
from epochcast.analyzer.backends.convmeter.forms.least_squares import robust
from epochcast.analyzer.backends.convmeter.terms import (
    Columns,
    compute_terms,
    exchange_terms,
    other_terms,
    traffic_terms,
    update_terms,
    weight_terms,
)
from epochcast.analyzer.errors import InputError

Array = NDArray[np.float64]

_FEWEST = 5


class Pooled(Layers):
    """Partial pooling: with few networks it is the paper's form with traffic for inputs and outputs, with many one per kind.

    Seconds are a sum of b·FLOPs and b·traffic by kind of layer, weights of dense layers and of all others, b·Outputs, b·FLOPs
    of narrow convolutions, operators, b, a constant, and on several devices what exchanges gradients. All coefficients are 0
    or more, the loss is robust (:func:`.least_squares.robust`), and (coefficient − common)² of each kind is added to it, apart
    for FLOPs and for elements moved, weights among them: being off by all of a point's seconds counts as that point's being
    wrong by so much. So a kind that no measured network had is as fast as the others, where ``layers`` takes it for free.

    Args:
        phase: one of ``points.PHASES``; an update has no kinds of layers.
    """

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit on points and their seconds.

        Raises:
            InputError: there are too few points.
        """
        if len(points) < _FEWEST:
            raise InputError(f"{len(points)} points of the {self.phase} are too few to fit; measure {_FEWEST} or more")
        pools, others = self._pools(points)
        X = self._terms(points)
        scale = _scale(pools, others, seconds)
        common = np.zeros((len(X), len(pools)))  # these coefficients explain nothing themselves
        penalties = _penalties([pool.shape[1] for pool in pools], X.shape[1])
        coefficients = robust(np.concatenate([X / scale, common], axis=1), seconds, penalties)
        self.coefficients = coefficients[: X.shape[1]] / scale
        return self

    def _terms(self, points: Columns) -> Array:
        pools, others = self._pools(points)
        return np.concatenate([*pools, others], axis=1)

    def _pools(self, points: Columns) -> tuple[list[Array], Array]:
        """Pooled terms, which have a coefficient in common, and the others."""
        if self.phase == "update":
            return [], np.concatenate([update_terms(points), exchange_terms(points)], axis=1)
        moved = np.concatenate([traffic_terms(points), weight_terms(points)], axis=1)
        return [compute_terms(points), moved], np.concatenate([other_terms(points), exchange_terms(points)], axis=1)


def _scale(pools: Sequence[Array], others: Array, seconds: Array) -> Array:
    """Scales of the terms, at which a coefficient of 1 explains all of a usual point; each pool has a single scale."""
    scales = [np.full(pool.shape[1], np.median(pool.sum(axis=1) / seconds)) for pool in pools]
    shares = others / seconds[:, None]
    middle = np.median(shares, axis=0)
    scale = np.concatenate([*scales, np.where(middle > 0, middle, shares.mean(axis=0))])
    return np.where(scale > 0, scale, 1.0)


def _penalties(sizes: Sequence[int], terms: int) -> Array:
    """A row for each pooled coefficient, less the common one of its pool; shape (sum of sizes, terms + pools)."""
    rows = np.zeros((sum(sizes), terms + len(sizes)))
    begin = 0
    for pool, size in enumerate(sizes):
        own = np.arange(begin, begin + size)
        rows[own, own], rows[own, terms + pool] = 1.0, -1.0
        begin += size
    return rows
