"""How much longer jobs take on a GPU that they share: curves assumed, and curves measured.

A slowdown says for the jobs on one GPU how many times as long each takes as alone: 1 or more, and 1 for a job that is alone;
infinite for jobs that cannot run together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .job import Job

Slowdown = Callable[[Sequence[Job]], Sequence[float]]

FIG7_ANCHORS = ((0.0, 1.10), (1.0, 1.20), (1.5, 1.60))
"""Cumulative occupancy and slowdown. Fig. 7 is known here by its text alone: JCT rises by 10 % to 60 %, and dramatically
beyond 100 %. The two ends and the knee at 100 % are the paper's; 20 % at the knee and 150 % for the end are assumed."""


def none(jobs: Sequence[Job]) -> Sequence[float]:
    """Sharing costs nothing: what packing could gain at the very most."""
    return [1.0] * len(jobs)


def fig7(jobs: Sequence[Job]) -> Sequence[float]:
    """The paper's Fig. 7: all jobs slow down with their cumulative occupancy, in straight lines between the anchors.

    Beyond the last anchor it goes on as steeply, but never below the cumulative occupancy: all jobs together have no more than
    100 % of the warps.
    """
    if len(jobs) < 2:
        return [1.0] * len(jobs)
    cumulative = sum(job.occupancy for job in jobs)
    (x0, y0), (x1, y1) = FIG7_ANCHORS[-2:]
    if cumulative <= x1:
        slowdown = float(np.interp(cumulative, [x for x, _ in FIG7_ANCHORS], [y for _, y in FIG7_ANCHORS]))
    else:
        slowdown = y1 + (y1 - y0) / (x1 - x0) * (cumulative - x1)
    return [max(slowdown, cumulative)] * len(jobs)


def utilisation(jobs: Sequence[Job]) -> Sequence[float]:
    """Time slicing: kernels of different jobs never overlap, so busy times add up, and beyond 100 % all are stretched alike.

    Processes that share a GPU without MPS take turns in this way; occupancy plays no part.
    """
    return [max(1.0, sum(job.nvml_utilisation for job in jobs))] * len(jobs)


def total_rate(slowdown: Slowdown, jobs: Sequence[Job]) -> float:
    """Throughput of a GPU: seconds alone that its jobs get done in a second, together."""
    return sum(1 / each for each in slowdown(jobs))


ASSUMED: dict[str, Slowdown] = {"none": none, "fig7": fig7, "utilisation": utilisation}
"""Curves that need no measurement, by name."""


@dataclass(frozen=True, eq=False)
class MeasuredSlowdown:
    """Slowdown by cumulative occupancy of a pair: the best curve that never falls (isotonic regression) through what was
    measured, flat beyond its ends, never below 1.

    Of more than two jobs, each is slowed down by what every other one alone adds: 1 + sum of (pair's slowdown - 1). For jobs
    that take turns this gives the number of jobs, as it must; whether it holds for others nobody measured.
    """

    cumulative: NDArray[np.float64]
    slowdown: NDArray[np.float64]

    @classmethod
    def fit(cls, pairs: pd.DataFrame) -> MeasuredSlowdown:
        """From the rows of ``gpu_scripts.occupancy_bench.read_colocation``."""
        from sklearn.isotonic import IsotonicRegression

        fitted = IsotonicRegression(y_min=1.0).fit(pairs["occupancy"] + pairs["other_occupancy"], pairs["slowdown"])
        return cls(np.asarray(fitted.X_thresholds_, dtype=float), np.asarray(fitted.y_thresholds_, dtype=float))

    def of_pair(self, cumulative: float) -> float:
        """Slowdown of each of two jobs with this cumulative occupancy."""
        return float(np.interp(cumulative, self.cumulative, self.slowdown))

    def __call__(self, jobs: Sequence[Job]) -> Sequence[float]:
        """Slowdown of each of the jobs on one GPU."""
        return [
            1.0 + sum(self.of_pair(one.occupancy + other.occupancy) - 1.0 for other in [*jobs[:place], *jobs[place + 1 :]])
            for place, one in enumerate(jobs)
        ]
