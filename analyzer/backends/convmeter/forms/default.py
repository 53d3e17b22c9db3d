"""``default``: ``corrected``, and for networks unlike the measured ones a mixture with other forms by cross-validation."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.corrected import Corrected
from epochcast.analyzer.backends.convmeter.forms.equations import Equations
from epochcast.analyzer.backends.convmeter.forms.layers import Layers
from epochcast.analyzer.backends.convmeter.forms.out_of_fold import out_of_fold
from epochcast.analyzer.backends.convmeter.terms import Columns
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import Arrays, part, under

Array = NDArray[np.float64]

_POWER = 2.0
"""Weights fall with this power of the error. To choose the best form outright is worse: few networks decide."""

_LEAST_ERROR = 1e-6


class Default:
    """Three forms that fail differently, weighed by how they do on families that were left out.

    ``corrected`` follows measured networks, the paper's three terms (``relative``) fail nowhere badly, and ``layers`` is free
    to tell kinds of layers apart, too free where few networks have a kind: it counts only between the other two. A network like
    measured ones needs no such caution: it gets ``corrected``, and the mixture by the square of how new it is.

    Args:
        phase: one of ``points.PHASES``.
    """

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.corrected = Corrected(phase)
        self.others: dict[str, Layers | Equations] = {"layers": Layers(phase), "relative": Equations.relative(phase)}
        self.weights: Array = np.array([1.0, 0.0, 0.0])
        self.errors: Array = np.zeros(0)

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit all, and weigh them; too few points for ``corrected`` raise InputError, for another leave it alone.

        ``weights`` are then of ``corrected``, ``layers`` and ``relative``, and ``errors`` the logarithms of measured over
        predicted of each point, by fits on other families.
        """
        self._fit_forms(points, seconds)
        apart = out_of_fold(points, seconds, self._apart)
        answers, novelty = apart[:, :3], apart[:, 3]
        truth = np.log(seconds)
        known = np.isfinite(answers).all(axis=1)
        if self.others and known.any():
            wrong = np.abs(answers[known] - truth[known, None]).mean(axis=0)
            weights = np.maximum(wrong, _LEAST_ERROR) ** -_POWER
            self.weights = weights / weights.sum()
        self.errors = truth - self._mixed(answers, novelty)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,)."""
        answer: Array = np.exp(self._mixed(*self._answers(points)))
        return answer

    def arrays(self) -> dict[str, Array]:
        """Fitted arrays of each form, and the weights; without the errors."""
        parts = {"corrected": self.corrected, **self.others}
        kept = {name: array for part_name, form in parts.items() for name, array in under(part_name, form.arrays()).items()}
        return kept | {"weights": self.weights}

    def restore(self, arrays: Arrays) -> Self:
        """Restore a fit from :meth:`arrays`."""
        self.corrected.restore(part(arrays, "corrected"))
        self.others = {name: form.restore(kept) for name, form in self.others.items() if (kept := part(arrays, name))}
        self.weights = arrays["weights"]
        return self

    def _fit_forms(self, points: pd.DataFrame, seconds: Array) -> None:
        self.corrected.fit(points, seconds)
        try:
            for other in self.others.values():
                other.fit(points, seconds)
        except InputError:
            self.others = {}

    def _apart(self, points: pd.DataFrame, seconds: Array, others: pd.DataFrame) -> Array:
        """Answers and novelty of points that are not fitted on; shape (m, 4), NaN where too few points are left."""
        apart = Default(self.phase)
        try:
            apart._fit_forms(points, seconds)
        except InputError:
            return np.full((len(others), 4), np.nan)
        return np.column_stack(apart._answers(others))

    def _answers(self, points: Columns) -> tuple[Array, Array]:
        """Logarithms of the seconds by ``corrected``, ``layers`` held between the others, and ``relative``; and the novelty.

        Shapes (n, 3) and (n,); NaN where another has no answer.
        """
        corrected, novelty = self.corrected.judge(points)
        answers = np.full((len(corrected), 3), np.nan)
        answers[:, 0] = np.log(corrected)
        if self.others:
            layers, answers[:, 2] = (np.log(other.predict(points)) for other in self.others.values())
            answers[:, 1] = np.clip(layers, answers[:, [0, 2]].min(axis=1), answers[:, [0, 2]].max(axis=1))
        return answers, novelty

    def _mixed(self, answers: Array, novelty: Array) -> Array:
        """The mixture by the square of the novelty; ``corrected`` where another has no answer."""
        mixed = answers @ self.weights
        answer: Array = np.where(np.isfinite(mixed), answers[:, 0] + novelty**2 * (mixed - answers[:, 0]), answers[:, 0])
        return answer
