"""Conformal intervals: one quantile of scaled errors for each kind of answer (Lei et al. 2018, 5.2)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.scoring import conformal_quantile


@dataclass(frozen=True)
class ScaledInterval:
    """Half-width of the 90 % interval of one kind of answers, as a multiple of an answer's scale in log seconds.

    Attributes:
        multiple: conformal quantile of |log error| / scale.
        protocol: what was left out of training when the errors were made.
        n: how many errors.
    """

    multiple: float
    protocol: str
    n: int

    @classmethod
    def of_errors(cls, scaled: NDArray[np.float64], groups: NDArray[np.str_], protocol: str) -> Self:
        """Take the quantile over errors in scales, shape (n,), each of their groups by the root of its size: one has 1500."""
        sizes = Counter(groups.tolist())
        weights = np.array([1 / np.sqrt(sizes[group]) for group in groups.tolist()])
        return cls(conformal_quantile(scaled, weights), protocol, len(scaled))


def half_widths(intervals: Mapping[str, ScaledInterval], answers: Answers) -> NDArray[np.float64]:
    """Half-width of each answer's interval by its cell, in log seconds, shape (n,)."""
    widths: NDArray[np.float64] = np.array([intervals[cell].multiple for cell in answers.cells.tolist()]) * answers.scale
    return widths
