"""Conformal intervals: quantiles of scaled errors per route and source GPU (Lei et al. 2018, 5.2, "locally weighted")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .answers import Answers
from .scoring import conformal_quantile

# Fewer errors of one source GPU give no stable quantile of their own; all sources together are taken then.
_FEWEST = 50


@dataclass(frozen=True)
class Interval:
    """Half-width of the 90 % interval of one route, as a multiple of an answer's scale in log seconds.

    Attributes:
        multiple: conformal quantile of |log error| / scale.
        protocol: what was left out of training when the errors were made.
        n: how many errors.
        by_source: the quantile of each source GPU with errors enough; sensors and clocks differ, and so do errors.
    """

    multiple: float
    protocol: str
    n: int
    by_source: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_errors(cls, log_errors: NDArray[np.float64], answers: Answers, protocol: str) -> Self:
        """Take the quantiles over errors and answers of shape (n,)."""
        scaled = log_errors / answers.scale
        sources, counts = np.unique(answers.sources, return_counts=True)
        by_source = {
            str(source): conformal_quantile(scaled[answers.sources == source])
            for source, count in zip(sources, counts, strict=True)
            if count >= _FEWEST
        }
        return cls(conformal_quantile(scaled), protocol, len(log_errors), by_source)

    def half_widths(self, answers: Answers) -> NDArray[np.float64]:
        """Half-width of each answer's interval in log seconds, shape (n,)."""
        return np.array([self.by_source.get(source, self.multiple) for source in answers.sources.tolist()]) * answers.scale


def half_widths(intervals: Mapping[str, Interval], answers: Answers) -> NDArray[np.float64]:
    """Half-width of each answer's interval by its route, in log seconds, shape (n,)."""
    widths = np.full(len(answers.routes), np.nan)
    for route in np.unique(answers.routes).tolist():
        rows = np.flatnonzero(answers.routes == route)
        widths[rows] = intervals[route].half_widths(answers[rows])
    return widths
