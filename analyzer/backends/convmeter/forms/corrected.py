"""``corrected``: ``pooled`` times the error on similar networks, a Gaussian process over :func:`describe`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from epochcast.analyzer.backends.convmeter.forms.pooled import Pooled
from epochcast.analyzer.backends.convmeter.metrics import COMPUTING_KINDS, KINDS
from epochcast.analyzer.backends.convmeter.terms import Columns, column
from epochcast.regressor.arrays import Arrays, part, under

Array = NDArray[np.float64]

_LENGTH = 0.5
"""Distance at which networks are about half alike, in standard deviations per number of the description. Set by hand: siblings
would decide the process' own likelihood, but predictions are of networks unlike all others."""

_NOISE = 0.3
"""Variance that similarity does not explain, over that of the process."""

_HUBER = 1.345
"""Standard deviations beyond which an error counts less: Huber's constant, 95 % as efficient as squares on normal errors."""

_TO_DEVIATION = 1.4826  # from the median of absolute errors to the standard deviation, if errors are normal
_FAR = 4.0
_MOST_POINTS = 1500
"""Points in the process: its fit grows with their third power."""

_LEAST = 1e-9  # of the usual error, to divide by
_KEPT = ("middle", "spread", "described", "noise", "pull")


class Corrected:
    """Far from every measured network it is ``pooled``, and for an update too, which depends on weights alone.

    The noise of a point grows with its error beyond the usual one, so that a network ten times too slow for reasons of its own
    (group norms, kernels that a memory layout lacks) draws others less, and its siblings together still draw each other.

    Args:
        phase: one of ``points.PHASES``.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.pooled = Pooled(phase)
        self.middle = self.spread = np.zeros(0)
        self.described = np.zeros((0, 0))
        self.noise = self.pull = np.zeros(0)
        self._factor: Any = None

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit ``pooled``, then the process on the logarithms of its errors; too few points raise InputError as there."""
        self.pooled.fit(points, seconds)
        if self.phase == "update":
            return self
        chosen = np.arange(len(points))
        if len(chosen) > _MOST_POINTS:
            chosen = np.sort(np.random.default_rng(0).choice(chosen, _MOST_POINTS, replace=False))
        some = points.iloc[chosen]
        base = self.pooled.predict(some)
        described = describe(some, base)
        self.middle, self.spread = described.mean(axis=0), described.std(axis=0) + 1e-6
        self.described = self._standard(described).astype(np.float32)  # enough digits, half the file
        errors = np.log(seconds[chosen] / base)
        usual = _HUBER * _TO_DEVIATION * np.median(np.abs(errors))
        self.noise = (_NOISE * np.maximum(1, np.abs(errors) / max(usual, _LEAST))).astype(np.float32)
        self._prepare()
        self.pull = cho_solve(self._factor, errors)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,)."""
        return self.judge(points)[0]

    def judge(self, points: Columns) -> tuple[Array, Array]:
        """Seconds, and the share of the errors' variance that measured networks leave open, both of shape (n,).

        The share is about 0 for a network like a measured one, and 1 for one unlike all.
        """
        base = self.pooled.predict(points)
        if not len(self.pull):
            return base, np.ones_like(base)
        likeness = _likeness(self._standard(describe(points, base)), self.described)
        explained = (likeness * cho_solve(self._factor, likeness.T).T).sum(axis=1)
        return base * np.exp(likeness @ self.pull), np.asarray(np.clip(1 - explained, 0, 1), dtype=np.float64)

    def arrays(self) -> dict[str, Array]:
        """Fitted arrays: those of ``pooled``, and the process."""
        return under("pooled", self.pooled.arrays()) | {name: getattr(self, name) for name in _KEPT}

    def restore(self, arrays: Arrays) -> Self:
        """Restore a fit from :meth:`arrays`."""
        self.pooled.restore(part(arrays, "pooled"))
        self.middle, self.spread, self.described, self.noise, self.pull = (arrays[name] for name in _KEPT)
        if len(self.pull):
            self._prepare()
        return self

    def _prepare(self) -> None:
        likeness = _likeness(self.described, self.described)
        self._factor = cho_factor(likeness + np.diag(self.noise))

    def _standard(self, described: Array) -> Array:
        """So that the distance of two usual networks is about 1.4, however many numbers describe them."""
        standard = np.clip((described - self.middle) / self.spread, -_FAR, _FAR)
        return np.asarray(standard / np.sqrt(described.shape[1]), dtype=np.float64)


def _likeness(left: Array, right: Array) -> Array:
    """Matérn 5/2, shape (n, m); 1 for the same."""
    scaled = np.sqrt(5) * cdist(left, right) / _LENGTH
    answer: Array = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    return answer


def describe(points: Columns, seconds: Array) -> Array:
    """Describe each point, shape (n, 37): shares of kinds, FLOPs per element moved, and how much an operator has to do.

    Args:
        points: metrics at batch 1 and ``batch``.
        seconds: about how long each takes, above 0, shape (n,); few seconds per operator hint at launches.
    """

    batch, operators = column(points, "batch"), np.maximum(column(points, "operators"), 1)
    flops, traffic = (
        np.maximum(column(points, "flops"), 1),
        np.maximum(sum(column(points, f"{kind}_traffic") for kind in KINDS), 1),
    )
    columns = [
        *(column(points, f"{kind}_flops") / flops for kind in COMPUTING_KINDS),
        *(column(points, f"{kind}_traffic") / traffic for kind in KINDS),
        np.log(flops / traffic),
        np.log(seconds / operators),
        np.log(batch * flops / operators),
        np.log(batch * traffic / operators),
        np.log(traffic),
        column(points, "narrow_flops") / flops,
        np.log(np.maximum(column(points, "conv_inputs"), 1) / np.maximum(column(points, "conv_outputs"), 1)),
        np.log(np.maximum(column(points, "weights"), 1) / traffic),
        np.log((column(points, "conv_weights") + 1) / np.maximum(column(points, "weights"), 1)),
    ]
    for kind in COMPUTING_KINDS:
        kind_flops, moved = column(points, f"{kind}_flops"), column(points, f"{kind}_traffic")
        there = moved > 0
        columns.append(np.where(there, np.log((kind_flops + 1) / (moved + 1)), 0.0))
        columns.append(np.where(there, np.log((batch * moved + 1) / (column(points, f"{kind}_operators") + 1)), 0.0))
    return np.stack(columns, axis=1)
