"""Intervals: conformal quantiles of scaled errors, one per route (Lei et al. 2018, section 5.2, "locally weighted")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .answers import Answers
from .scoring import conformal_quantile


@dataclass(frozen=True)
class Interval:
    """Half-width of the 90 % interval of one route, as a multiple of an answer's scale in log seconds.

    Attributes:
        multiple: conformal quantile of |log error| / scale.
        protocol: what was left out of training when the errors were made.
        n: how many errors.
    """

    multiple: float
    protocol: str
    n: int

    @classmethod
    def of_errors(cls, log_errors: NDArray[np.float64], answers: Answers, protocol: str) -> Self:
        """Take the quantile over errors and answers of shape (n,)."""
        return cls(conformal_quantile(log_errors / answers.scale), protocol, len(log_errors))


def half_widths(intervals: Mapping[str, Interval], answers: Answers) -> NDArray[np.float64]:
    """Half-width of each answer's interval in log seconds, shape (n,)."""
    return np.array([intervals[route].multiple for route in answers.routes.tolist()]) * answers.scale
