"""``default``: ``corrected``, and for networks unlike the measured ones as much of ``relative`` as cross-validation tells."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .....regressor.arrays import Arrays, part, under
from ....errors import InputError
from ..terms import Columns
from .corrected import Corrected
from .equations import Equations
from .out_of_fold import out_of_fold

Array = NDArray[np.float64]

_POWER = 2.0
"""Weights fall with this power of the error. To choose the better form outright is worse: few networks decide."""


_LEAST_ERROR = 1e-6


class Default:
    """Two forms that fail differently: kinds of layers, which overfit where few families teach, and the paper's three terms.

    Whole families of the points are left out in turn, and each form is weighed by the errors that it makes on them. A network
    like measured ones needs no such caution: the share of ``relative`` is multiplied by how new the network is.

    Args:
        phase: one of ``points.PHASES``.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.corrected = Corrected(phase)
        self.relative: Equations | None = Equations.relative(phase)
        self.caution = 0.0
        self.errors: Array = np.zeros(0)

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit both, and weigh them; too few points for any raise InputError.

        ``errors`` are then the logarithms of measured over predicted of each point, by fits on other families.
        """
        self.corrected.fit(points, seconds)
        try:
            self.relative = Equations.relative(self.phase).fit(points, seconds)
        except InputError:
            self.relative = None
        apart = out_of_fold(points, seconds, self._apart)
        corrected, relative, novelty = np.log(apart[:, 0]), np.log(apart[:, 1]), apart[:, 2]
        truth = np.log(seconds)
        known = np.isfinite(relative) & np.isfinite(corrected)
        if self.relative is not None and known.any():
            wrong = [max(np.abs(one[known] - truth[known]).mean(), _LEAST_ERROR) for one in (corrected, relative)]
            weights = np.array(wrong) ** -_POWER
            self.caution = float(weights[1] / weights.sum())
        self.errors = truth - _blend(corrected, relative, self.caution * novelty)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,)."""
        corrected, novelty = self.corrected.judge(points)
        if self.relative is None:
            return corrected
        answer: Array = np.exp(_blend(np.log(corrected), np.log(self.relative.predict(points)), self.caution * novelty))
        return answer

    def arrays(self) -> dict[str, Array]:
        """What was fitted; the errors are not kept."""
        relative = {} if self.relative is None else under("relative", self.relative.arrays())
        return under("corrected", self.corrected.arrays()) | relative | {"caution": np.array(self.caution)}

    def restore(self, arrays: Arrays) -> Self:
        """Take what :meth:`arrays` gave."""
        self.corrected.restore(part(arrays, "corrected"))
        relative = part(arrays, "relative")
        self.relative = Equations.relative(self.phase).restore(relative) if relative else None
        self.caution = float(arrays["caution"])
        return self

    def _apart(self, points: pd.DataFrame, seconds: Array, others: pd.DataFrame) -> Array:
        """Seconds by either form and novelty, of points that it does not fit on; shape (m, 3), NaN where too little is left."""
        answer = np.full((len(others), 3), np.nan)
        try:
            answer[:, 0], answer[:, 2] = Corrected(self.phase).fit(points, seconds).judge(others)
            answer[:, 1] = Equations.relative(self.phase).fit(points, seconds).predict(others)
        except InputError:
            pass
        return answer


def _blend(corrected: Array, relative: Array, share: Array) -> Array:
    """Logarithms of both, and the share of ``relative``, which counts only where it answers."""
    answer: Array = np.where(np.isfinite(relative), corrected + share * (relative - corrected), corrected)
    return answer
