"""Conformal intervals: quantiles of scaled errors per route, origin and source GPU (Lei et al. 2018, 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.scoring import conformal_quantile

# Fewer errors of one source GPU or origin give no stable quantile of their own; all together are taken then. By choice
# (decision 0014).
_FEWEST = 50
# As many errors of one source GPU does the quantile of all count next to its own: those of a GPU are of few jobs. The interval
# score of left-out jobs is 3 % smaller with it, and of 25 source GPUs one more holds 86 to 94 %
# (decision 0040).
_WEIGHT_OF_ALL = 100


@dataclass(frozen=True)
class ScaledInterval:
    """Half-width of the 90 % interval of one route, as a multiple of an answer's scale in log seconds.

    Attributes:
        multiple: conformal quantile of |log error| / scale.
        protocol: what was left out of training when the errors were made.
        n: how many errors.
        by_source: the quantile of each source GPU with errors enough, drawn towards that of all; sensors and clocks differ, and
            so do errors.
        by_origin: how many times as large as all the errors of each origin with errors enough are, at the same quantile; the
            quantiles by source are of what this leaves. Code that was tuned for its GPUs errs less than other code.
    """

    multiple: float
    protocol: str
    n: int
    by_source: Mapping[str, float] = field(default_factory=dict)
    by_origin: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_errors(cls, log_errors: NDArray[np.float64], answers: Answers, protocol: str) -> Self:
        """Take the quantiles over errors and answers of shape (n,)."""
        scaled = log_errors / answers.scale
        multiple = conformal_quantile(scaled)
        named = _quantiles(scaled, answers.origins).items() if multiple > 0 else ()
        by_origin = {origin: value / multiple for origin, value in named if origin and value > 0}
        scaled = scaled / _factors(by_origin, answers.origins, 1.0)
        of_all = conformal_quantile(scaled)
        by_source = {}
        for source, own in _quantiles(scaled, answers.sources).items():
            weight = _WEIGHT_OF_ALL / (_WEIGHT_OF_ALL + np.count_nonzero(answers.sources == source))
            by_source[source] = float(of_all**weight * own ** (1 - weight))
        return cls(multiple, protocol, len(log_errors), by_source, by_origin)

    def half_widths(self, answers: Answers) -> NDArray[np.float64]:
        """Half-width of each answer's interval in log seconds, shape (n,)."""
        of_source = _factors(self.by_source, answers.sources, self.multiple)
        return of_source * _factors(self.by_origin, answers.origins, 1.0) * answers.scale


def _quantiles(scaled: NDArray[np.float64], names: NDArray[np.str_]) -> dict[str, float]:
    """The conformal quantile of the rows of each name with errors enough."""
    known, counts = np.unique(names, return_counts=True)
    return {
        str(name): conformal_quantile(scaled[names == name])
        for name, count in zip(known, counts, strict=True)
        if count >= _FEWEST
    }


def _factors(by_name: Mapping[str, float], names: NDArray[np.str_], other: float) -> NDArray[np.float64]:
    return np.array([by_name.get(name, other) for name in names.tolist()], dtype=np.float64)


def half_widths(intervals: Mapping[str, ScaledInterval], answers: Answers) -> NDArray[np.float64]:
    """Half-width of each answer's interval by its route, in log seconds, shape (n,)."""
    widths = np.full(len(answers.routes), np.nan)
    for route in np.unique(answers.routes).tolist():
        rows = np.flatnonzero(answers.routes == route)
        widths[rows] = intervals[route].half_widths(answers[rows])
    return widths
