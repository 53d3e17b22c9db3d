"""One stream of jobs on GPUs, event by event (SimPy).

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

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import simpy

from epochcast.analyzer.backends.occupancy.packing.job import PackedGpu, PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import Policy
from epochcast.analyzer.backends.occupancy.packing.slowdown import Slowdown
from epochcast.analyzer.errors import InputError


@dataclass(frozen=True)
class Finished:
    """What became of a job.

    Attributes:
        job: as it was submitted first.
        gpu: number of the GPU that it ran on, from 0.
        start: seconds at which it began to run for good.
        finish: seconds.
        failures: how often it ran out of memory before.
    """

    job: PackedJob
    gpu: int
    start: float
    finish: float
    failures: int

    @property
    def jct(self) -> float:
        """Job completion time: seconds from arrival to finish."""
        return self.finish - self.job.arrival

    @property
    def jct_slowdown(self) -> float:
        """Job completion time, waiting included, over the seconds that the job takes alone."""
        return self.jct / self.job.duration

    @property
    def run_slowdown(self) -> float:
        """Seconds of running over the seconds that the job takes alone: what co-location costs it."""
        return (self.finish - self.start) / self.job.duration


@dataclass(frozen=True)
class Outcome:
    """A stream that has run to its end.

    Attributes:
        makespan: seconds from the first arrival to the last finish.
        nvml_utilisation, occupancy: means over the makespan and all GPUs, 0..1.
        finished: every job, in the order of submission.
    """

    makespan: float
    nvml_utilisation: float
    occupancy: float
    finished: tuple[Finished, ...]


def simulate(jobs: Sequence[PackedJob], gpus: int, memory: float, policy: Policy, slowdown: Slowdown) -> Outcome:
    """Run the jobs on that many GPUs of ``memory`` bytes each.

    Raises:
        InputError: there is no job or no GPU, or a job needs more than a whole GPU has.
    """
    if not jobs or gpus < 1:
        raise InputError(f"{len(jobs)} jobs on {gpus} GPUs: nothing to simulate; give at least one of each")
    if not memory > 0:
        raise InputError(f"a GPU with {memory:g} bytes of memory holds no job; give its memory in bytes")
    largest = max(jobs, key=attrgetter("memory"))
    if largest.memory > memory:
        raise InputError(
            f"job {largest.name!r} needs {largest.memory:.4g} bytes and a GPU has {memory:.4g}; "
            "give larger GPUs or leave the job out"
        )
    return _Cluster(jobs, gpus, memory, policy, slowdown).run()


@dataclass(eq=False)
class _Running:
    """A job on a GPU; ``slowdown`` holds until the process is interrupted."""

    number: int
    job: PackedJob
    start: float
    slowdown: float = 1.0
    process: simpy.Process | None = None


@dataclass(eq=False)
class _SharedGpu(PackedGpu):
    """A GPU with its running jobs, in the order of ``jobs``, and its integrals over time."""

    running: list[_Running] = field(default_factory=list)
    since: float = 0.0
    nvml: float = 0.0
    occupancy: float = 0.0
    nvml_seconds: float = 0.0
    occupancy_seconds: float = 0.0

    def account(self, now: float) -> None:
        """Add up the time since the last change."""
        self.nvml_seconds += self.nvml * (now - self.since)
        self.occupancy_seconds += self.occupancy * (now - self.since)
        self.since = now

    def retune(self, slowdown: Slowdown) -> None:
        """Set the slowdown of every running job, and what the GPU is filled with from now on."""
        for running, factor in zip(self.running, slowdown(self.jobs), strict=True):
            if not 1 <= factor < float("inf"):
                raise ValueError(f"{[job.name for job in self.jobs]} cannot run together: slowdown {factor}")
            running.slowdown = factor
        self.nvml = min(1.0, sum(running.job.nvml_utilisation / running.slowdown for running in self.running))
        self.occupancy = min(1.0, sum(running.job.occupancy / running.slowdown for running in self.running))


class _Cluster:
    def __init__(self, jobs: Sequence[PackedJob], gpus: int, memory: float, policy: Policy, slowdown: Slowdown) -> None:
        self.env = simpy.Environment()
        self.jobs = jobs
        self.gpus = [_SharedGpu(memory) for _ in range(gpus)]
        self.policy, self.slowdown = policy, slowdown
        self.queue: list[tuple[int, PackedJob]] = []
        self.failures = [0] * len(jobs)
        self.finished: dict[int, Finished] = {}

    def run(self) -> Outcome:
        self.env.process(self._arrivals())
        self.env.run()
        first, last = min(job.arrival for job in self.jobs), max(job.finish for job in self.finished.values())
        gpu_seconds = (last - first) * len(self.gpus)
        return Outcome(
            makespan=last - first,
            nvml_utilisation=sum(gpu.nvml_seconds for gpu in self.gpus) / gpu_seconds,
            occupancy=sum(gpu.occupancy_seconds for gpu in self.gpus) / gpu_seconds,
            finished=tuple(self.finished[number] for number in range(len(self.jobs))),
        )

    def _arrivals(self) -> Generator[simpy.Event, Any, None]:
        in_order = sorted(enumerate(self.jobs), key=lambda numbered: numbered[1].arrival)
        for arrival, group in groupby(in_order, key=lambda numbered: numbered[1].arrival):
            if arrival > self.env.now:
                yield self.env.timeout(arrival - self.env.now)
            self.queue.extend(group)  # all at once: the policy chooses among them
            self._place()

    def _place(self, left: _SharedGpu | None = None) -> None:
        """Ask the policy until it has nothing more, then let the jobs of every GPU that changed go on at their new rates."""
        changed = [] if left is None else [left]
        while self.queue and (placement := self.policy([job for _, job in self.queue], self.gpus)) is not None:
            position, index = placement
            number, job = self.queue.pop(position)
            gpu = self.gpus[index]
            if job.memory > gpu.free_memory:
                self.failures[number] += 1
                self.queue.append((number, replace(job, predicted_memory=job.memory)))
                continue
            if gpu not in changed:
                changed.append(gpu)
            gpu.jobs.append(job)
            gpu.running.append(_Running(number, job, self.env.now))
        for gpu in changed:
            gpu.account(self.env.now)
            gpu.retune(self.slowdown)
            for running in gpu.running:
                if running.process is None:
                    running.process = self.env.process(self._work(running, gpu))
                else:
                    running.process.interrupt()

    def _work(self, running: _Running, gpu: _SharedGpu) -> Generator[simpy.Event, Any, None]:
        remaining = running.job.duration
        while remaining > 0:
            began, slowdown = self.env.now, running.slowdown
            try:
                yield self.env.timeout(remaining * slowdown)
                break
            except simpy.Interrupt:
                remaining -= (self.env.now - began) / slowdown
        place = gpu.running.index(running)
        del gpu.running[place], gpu.jobs[place]
        self.finished[running.number] = Finished(
            self.jobs[running.number], self.gpus.index(gpu), running.start, self.env.now, self.failures[running.number]
        )
        self._place(left=gpu)
