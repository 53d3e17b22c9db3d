"""How much longer jobs take on a GPU that they share. None of these curves was measured.

A slowdown says for the jobs on one GPU how many times as long each takes as alone: 1 or more, and 1 for a job that is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.job import PackedJob

Slowdown = Callable[[Sequence[PackedJob]], Sequence[float]]

FIG7_ANCHORS = ((0.0, 1.10), (1.0, 1.20), (1.5, 1.60))
"""Cumulative occupancy and slowdown. Fig. 7 is known here by its text alone: JCT rises by 10 % to 60 %, and dramatically
beyond 100 %. The two ends and the knee at 100 % are the paper's; 20 % at the knee and 150 % for the end are assumed."""


def none(jobs: Sequence[PackedJob]) -> Sequence[float]:
    """Sharing costs nothing: what packing could gain at the very most."""
    return [1.0] * len(jobs)


def fig7(jobs: Sequence[PackedJob]) -> Sequence[float]:
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


def utilisation(jobs: Sequence[PackedJob]) -> Sequence[float]:
    """Time slicing: kernels of different jobs never overlap, so busy times add up, and beyond 100 % all are stretched alike.

    Processes that share a GPU without MPS take turns in this way; occupancy plays no part.
    """
    return [max(1.0, sum(job.nvml_utilisation for job in jobs))] * len(jobs)


SLOWDOWNS: dict[str, Slowdown] = {"none": none, "fig7": fig7, "utilisation": utilisation}
