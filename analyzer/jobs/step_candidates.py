"""Which GPUs another one may be in step with, without asking each of them: by the length of their epochs and their beginning.

Of ten thousand GPUs that is a few; `phase.in_step` decides, and nothing that it would say yes to is left out.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ..telemetry.gpu_report import Report
from .phase import MOST_APART

# Lengths of epochs that may be of one job lie in one band or in two beside each other; a little wider against rounding.
_BAND = 1.001 * math.log1p(MOST_APART)


class StepCandidates:
    """GPUs with epochs, by a number each; they are put in and asked for in any order."""

    def __init__(self) -> None:
        """Begin with none."""
        self._numbers: dict[tuple[int, int], list[int]] = defaultdict(list)

    def add(self, number: int, report: Report) -> None:
        """Put a GPU in; one without epochs is in step with none."""
        place = _place(report)
        if place is not None:
            band, since = place
            self._numbers[band, _cell(since, band)].append(number)

    def near(self, report: Report) -> list[int]:
        """Return the numbers, in ascending order, of all that `phase.in_step` may find in step with ``report``."""
        place = _place(report)
        if place is None:
            return []
        band, since = place
        found: list[int] = []
        for other in (band - 1, band, band + 1):
            cell = _cell(since, other)
            for near in (cell - 1, cell, cell + 1):
                found += self._numbers.get((other, near), ())
        return sorted(found)


def _place(report: Report) -> tuple[int, float] | None:
    if report.verdict != "epochs" or not report.period_s or report.job_since is None:
        return None
    return math.floor(math.log(report.period_s) / _BAND), report.job_since


def _cell(since: float, band: int) -> int:
    """Beginnings within one epoch of each other lie in one cell or in two beside each other, also from one band to the next."""
    return math.floor(since / math.exp((band + 2) * _BAND))
