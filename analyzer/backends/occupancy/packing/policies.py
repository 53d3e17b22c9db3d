"""Which waiting job goes on which GPU: slot-, nvml-util- and occu-packing of section VI.

A policy is called again after each placement until it has none. It sees predictions of what waits, what running jobs hold of
the memory, and nothing of what will come.

The paper names bin packing and no more. Assumed here: waiting jobs are tried in the order of their arrival and a job that fits
nowhere lets later ones pass (no job holds the others up); of the GPUs that take a job, the fullest gets it (best fit). A GPU
without jobs takes any job. Memory counts for all that co-locate: the paper's packing is meant to avoid failures, and a
comparison in which only one side minds the memory would measure that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epochcast.analyzer.backends.occupancy.packing.job import PackedGpu, PackedJob

Placement = tuple[int, int]
"""Position in the queue, position of the GPU."""

Policy = Callable[[Sequence[PackedJob], Sequence[PackedGpu]], Placement | None]

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
