"""Which waiting job goes on which GPU: slot-, nvml-util- and occu-packing of section VI, and packing by interference.

A policy is asked again after each placement until it has none. It sees predictions of what waits, what running jobs hold of
the memory, and nothing of what will come.

The paper names bin packing and no more. Assumed here: waiting jobs are tried in the order of their arrival and a job that fits
nowhere lets later ones pass (no job holds the others up); of the GPUs that take a job, the fullest gets it (best fit). A GPU
without jobs takes any job. Memory counts for all that co-locate: the paper's packing is meant to avoid failures, and a
comparison in which only one side minds the memory would measure that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .gpu import Gpu
from .job import Job
from .slowdown import Slowdown, total_rate

Placement = tuple[int, int]
"""Position in the queue, position of the GPU."""

Policy = Callable[[Sequence[Job], Sequence[Gpu]], Placement | None]

_ROUNDING = 1e-9
"""Shares that add up to one but for this are one; a gain below it is none."""


def slot(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
    """Slot packing: every job has its GPU for itself."""
    idle = _idle(gpus)
    return None if idle is None or not queue else (0, idle)


def nvml_util(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
    """Bin packing with at most 100 % of cumulative NVML utilisation on a GPU [6], [7]."""
    return _bin_packing(queue, gpus, lambda job: job.nvml_utilisation)


def occu(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
    """Bin packing with at most 100 % of cumulative predicted occupancy on a GPU: the paper's."""
    return _bin_packing(queue, gpus, lambda job: job.predicted_occupancy)


def occu_spread(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
    """As :func:`occu` but the emptiest GPU gets the job: no GPU idles beside one that is shared."""
    return _bin_packing(queue, gpus, lambda job: job.predicted_occupancy, fullest=False)


def by_gain(belief: Slowdown) -> Policy:
    """Packing by interference: co-locate the job and GPU that gain the most throughput, and only where there is a gain.

    An idle GPU takes the first job that waits. Else throughput is the sum of the rates of a GPU's jobs (alone: 1), as
    ``belief`` says for them; a job that would slow the others down by more than it gets done itself waits. Given the true
    slowdown and true occupancies this is an oracle of what sharing costs, not of the best schedule: it is as greedy.
    """

    def policy(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
        idle = _idle(gpus)
        if idle is not None:
            return (0, idle) if queue else None
        best, most, kinds = None, _ROUNDING, _one_of_each(queue)
        for index, gpu in enumerate(gpus):
            now, free = total_rate(belief, gpu.jobs), gpu.free_memory
            for position, job in kinds:
                if job.predicted_memory <= free:
                    gain = total_rate(belief, [*gpu.jobs, job]) - now
                    if gain > most:
                        best, most = (position, index), gain
        return best

    return policy


def random_pair(allowed: Slowdown, rng: np.random.Generator) -> Policy:
    """Co-locate at random: an idle GPU takes the first job, any other one a random job that can run there at all."""

    def policy(queue: Sequence[Job], gpus: Sequence[Gpu]) -> Placement | None:
        idle = _idle(gpus)
        if idle is not None:
            return (0, idle) if queue else None
        can = [
            (position, index)
            for index, gpu in enumerate(gpus)
            for position, job in enumerate(queue)
            if job.predicted_memory <= gpu.free_memory and total_rate(allowed, [*gpu.jobs, job]) > 0
        ]
        return can[rng.integers(len(can))] if can else None

    return policy


def _bin_packing(
    queue: Sequence[Job], gpus: Sequence[Gpu], share: Callable[[Job], float], *, fullest: bool = True
) -> Placement | None:
    """The first job that any GPU takes, on the fullest (or emptiest) of those; the first of equals."""
    filled = [sum(map(share, gpu.jobs)) for gpu in gpus]
    free = [gpu.free_memory for gpu in gpus]
    choose = max if fullest else min
    for position, job in enumerate(queue):
        takes = [
            index
            for index, gpu in enumerate(gpus)
            if not gpu.jobs or (job.predicted_memory <= free[index] and filled[index] + share(job) <= 1 + _ROUNDING)
        ]
        if takes:
            return position, choose(takes, key=filled.__getitem__)
    return None


def _one_of_each(queue: Sequence[Job]) -> list[tuple[int, Job]]:
    """The first of the jobs that no slowdown can tell apart: a long queue holds few kinds."""
    first: dict[tuple[object, ...], tuple[int, Job]] = {}
    for position, job in enumerate(queue):
        alike = (job.kind, job.occupancy, job.predicted_occupancy, job.nvml_utilisation, job.memory, job.predicted_memory)
        first.setdefault(alike, (position, job))
    return list(first.values())


def _idle(gpus: Sequence[Gpu]) -> int | None:
    """The first GPU without jobs."""
    return next((index for index, gpu in enumerate(gpus) if not gpu.jobs), None)


POLICIES: dict[str, Callable[[Slowdown], Policy]] = {
    "slot": lambda _: slot,
    "nvml-util": lambda _: nvml_util,
    "occu": lambda _: occu,
    "occu-spread": lambda _: occu_spread,
    "interference": lambda slowdown: by_gain(lambda jobs: slowdown([job.as_predicted for job in jobs])),
    "oracle": by_gain,
}
"""Policies by name, each made from the true slowdown; only the oracle applies it to what is true."""

PAPER = ("slot", "nvml-util", "occu")
