"""One stream of jobs on GPUs, event by event.

Each running job gets done at the rate 1 / slowdown, which changes whenever a job joins or leaves its GPU. Jobs neither move
nor pause. A job that does not find the memory it truly needs fails as it starts and is submitted again, with that need known
and behind those that wait then (the paper's "job resubmission caused by out-of-memory failures"); the failure itself is taken
to cost no time.

NVML utilisation of a GPU is min(1, sum of the jobs' utilisations / slowdowns): the seconds in which a job's kernels run are
part of its work, so they are the same alone and next to others, and kernels of different jobs run one after the other as long
as there is room. By the paper's Table VI makespan x utilisation is nearly the same for its three policies (5.4 % more for occu-
packing than for slot-packing, 5.1 % less for nvml-util-packing), which is what this definition gives. Occupancy is min(1, sum
of occupancies / slowdowns), on the same grounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import PackedGpu, Policy, Slowdown
from epochcast.analyzer.errors import InputError

FIGURES = ("makespan", "nvml_utilisation", "occupancy", "jct", "jct_slowdown", "run_slowdown", "failures")
"""Of one stream: seconds from the first arrival to the last finish; ratios over the makespan and all GPUs, 0..1; means over its
jobs of the seconds from arrival to finish, of these over the seconds alone, and of the seconds of running over those alone;
and how often a job ran out of memory."""


@dataclass(eq=False)
class JobRun:
    """A job, as it was submitted, on a GPU.

    Attributes:
        job: the job.
        start, finish: seconds; the latter is when it ends if nothing changes any more.
        left: of its seconds alone.
        failures: how often it ran out of memory before.
        slowdown: how many times as long as alone it takes now.
    """

    job: PackedJob
    start: float
    left: float
    failures: int
    slowdown: float = 1.0
    finish: float = 0.0


def simulate(
    jobs: Sequence[PackedJob], gpus: int, memory: float, policy: Policy, slowdown: Slowdown
) -> tuple[dict[str, float], list[JobRun]]:
    """Run the jobs on that many GPUs of ``memory`` bytes each: :data:`FIGURES`, and every job in the order of submission.

    Raises:
        InputError: a job needs more than a whole GPU has.
    """
    largest = max(jobs, key=attrgetter("memory"))
    if largest.memory > memory:
        raise InputError(
            f"job {largest.name!r} needs {largest.memory:.4g} bytes and a GPU has {memory:.4g}; "
            "give larger GPUs or leave the job out"
        )
    running: list[list[JobRun]] = [[] for _ in range(gpus)]
    coming = deque(sorted(enumerate(jobs), key=lambda numbered: numbered[1].arrival))
    waiting: list[tuple[int, PackedJob]] = []
    failures = [0] * len(jobs)
    runs: dict[int, JobRun] = {}
    changed: set[int] = set()
    nvml_seconds, occupancy_seconds = np.zeros(gpus), np.zeros(gpus)
    first = now = coming[0][1].arrival
    while True:
        while coming and coming[0][1].arrival <= now:  # all at once: the policy chooses among them
            waiting.append(coming.popleft())
        while waiting:
            cluster = [PackedGpu(memory, [run.job for run in own]) for own in running]
            placement = policy([job for _, job in waiting], cluster)
            if placement is None:
                break
            number, job = waiting.pop(placement[0])
            place = placement[1]
            if job.memory > cluster[place].free_memory:
                failures[number] += 1
                waiting.append((number, replace(job, predicted_memory=job.memory)))
                continue
            changed.add(place)
            runs[number] = JobRun(jobs[number], now, job.duration, failures[number])
            running[place].append(runs[number])
        while changed:
            place = changed.pop()
            for run, factor in zip(running[place], slowdown([run.job for run in running[place]]), strict=True):
                run.slowdown, run.finish = factor, now + run.left * factor
        ends = [run.finish for own in running for run in own]
        if not ends and not coming:
            break
        event = min([*ends, coming[0][1].arrival] if coming else ends)
        for place, own in enumerate(running):
            nvml_seconds[place] += min(1.0, sum(run.job.nvml_utilisation / run.slowdown for run in own)) * (event - now)
            occupancy_seconds[place] += min(1.0, sum(run.job.occupancy / run.slowdown for run in own)) * (event - now)
            for run in own:
                run.left -= (event - now) / run.slowdown
            running[place] = [run for run in own if run.finish > event]
            if len(running[place]) < len(own):
                changed.add(place)
        now = event
    done = [runs[number] for number in range(len(jobs))]
    figures = {
        "makespan": now - first,
        "nvml_utilisation": nvml_seconds.sum() / ((now - first) * gpus),
        "occupancy": occupancy_seconds.sum() / ((now - first) * gpus),
        "jct": np.mean([run.finish - run.job.arrival for run in done]),
        "jct_slowdown": np.mean([(run.finish - run.job.arrival) / run.job.duration for run in done]),
        "run_slowdown": np.mean([(run.finish - run.start) / run.job.duration for run in done]),
        "failures": sum(failures),
    }
    return {name: float(value) for name, value in figures.items()}, done
