"""Which waiting job goes on which GPU, and what sharing one costs: slot-, nvml-util- and occu-packing of section VI.

A policy is called again after each placement until it has none. It sees predictions of what waits, what running jobs hold of
the memory, and nothing of what will come.

The paper names bin packing and no more. Assumed here: waiting jobs are tried in the order of their arrival and a job that fits
nowhere lets later ones pass (no job holds the others up); of the GPUs that take a job, the fullest gets it (best fit). A GPU
without jobs takes any job. Memory counts for all that co-locate: the paper's packing is meant to avoid failures, and a
comparison in which only one side minds the memory would measure that.

A slowdown says for the jobs on one GPU how many times as long each takes as alone: 1 or more, and 1 for a job that is alone.
None of these curves was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob


@dataclass(eq=False)
class PackedGpu:
    """One GPU: its memory in bytes and the jobs that run on it now."""

    memory: float
    jobs: list[PackedJob] = field(default_factory=list)

    @property
    def free_memory(self) -> float:
        """Bytes that the running jobs leave: once they run, what they hold can be read."""
        return self.memory - sum(job.memory for job in self.jobs)


Placement = tuple[int, int]
"""Position in the queue, position of the GPU."""

Policy = Callable[[Sequence[PackedJob], Sequence[PackedGpu]], Placement | None]

Slowdown = Callable[[Sequence[PackedJob]], Sequence[float]]

_ROUNDING = 1e-9
"""Shares that add up to one but for this are one."""


def slot(queue: Sequence[PackedJob], gpus: Sequence[PackedGpu]) -> Placement | None:
    """Slot packing: every job has its GPU for itself."""
    idle = next((index for index, gpu in enumerate(gpus) if not gpu.jobs), None)
    return None if idle is None or not queue else (0, idle)


def nvml_util(queue: Sequence[PackedJob], gpus: Sequence[PackedGpu]) -> Placement | None:
    """Bin packing with at most 100 % of cumulative NVML utilisation on a GPU [6], [7]."""
    return _bin_packing(queue, gpus, lambda job: job.nvml_utilisation)


def occu(queue: Sequence[PackedJob], gpus: Sequence[PackedGpu]) -> Placement | None:
    """Bin packing with at most 100 % of cumulative predicted occupancy on a GPU: the paper's."""
    return _bin_packing(queue, gpus, lambda job: job.predicted_occupancy)


def _bin_packing(
    queue: Sequence[PackedJob], gpus: Sequence[PackedGpu], share: Callable[[PackedJob], float]
) -> Placement | None:
    """The first job that any GPU takes, on the fullest of those; the first of equals."""
    filled = [sum(map(share, gpu.jobs)) for gpu in gpus]
    free = [gpu.free_memory for gpu in gpus]
    for position, job in enumerate(queue):
        takes = [
            index
            for index, gpu in enumerate(gpus)
            if not gpu.jobs or (job.predicted_memory <= free[index] and filled[index] + share(job) <= 1 + _ROUNDING)
        ]
        if takes:
            return position, max(takes, key=filled.__getitem__)
    return None


POLICIES: dict[str, Policy] = {"slot": slot, "nvml-util": nvml_util, "occu": occu}

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
