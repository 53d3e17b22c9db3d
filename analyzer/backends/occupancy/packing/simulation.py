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
from dataclasses import dataclass, field, replace
from operator import attrgetter

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import PackedGpu, Policy, Slowdown
from epochcast.analyzer.errors import InputError


@dataclass(frozen=True)
class Finished:
    """What became of a job as it was submitted: number of its GPU, seconds, and how often it ran out of memory before."""

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


@dataclass(eq=False)
class _Running:
    """A job on a GPU: what is left of its seconds alone, and when it ends if nothing changes."""

    number: int
    job: PackedJob
    start: float
    left: float
    slowdown: float = 1.0
    end: float = 0.0


@dataclass(eq=False)
class _SharedGpu(PackedGpu):
    """A GPU with its running jobs, in the order of ``jobs``, and its integrals over time."""

    running: list[_Running] = field(default_factory=list)
    nvml_seconds: float = 0.0
    occupancy_seconds: float = 0.0

    def retune(self, now: float, slowdown: Slowdown) -> None:
        """Set the slowdown of every running job."""
        for running, factor in zip(self.running, slowdown(self.jobs), strict=True):
            if not 1 <= factor < float("inf"):
                raise ValueError(f"{[job.name for job in self.jobs]} cannot run together: slowdown {factor}")
            running.slowdown, running.end = factor, now + running.left * factor

    def advance(self, seconds: float) -> None:
        """Work for some seconds during which nothing changes."""
        nvml = sum(running.job.nvml_utilisation / running.slowdown for running in self.running)
        occupancy = sum(running.job.occupancy / running.slowdown for running in self.running)
        self.nvml_seconds += min(1.0, nvml) * seconds
        self.occupancy_seconds += min(1.0, occupancy) * seconds
        for running in self.running:
            running.left -= seconds / running.slowdown


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
    cluster = [_SharedGpu(memory) for _ in range(gpus)]
    coming = deque(sorted(enumerate(jobs), key=lambda numbered: numbered[1].arrival))
    waiting: list[tuple[int, PackedJob]] = []
    failures = [0] * len(jobs)
    finished: dict[int, Finished] = {}
    changed: set[int] = set()
    first = now = coming[0][1].arrival
    while True:
        while coming and coming[0][1].arrival <= now:  # all at once: the policy chooses among them
            waiting.append(coming.popleft())
        while waiting and (placement := policy([job for _, job in waiting], cluster)) is not None:
            number, job = waiting.pop(placement[0])
            gpu = cluster[placement[1]]
            if job.memory > gpu.free_memory:
                failures[number] += 1
                waiting.append((number, replace(job, predicted_memory=job.memory)))
                continue
            changed.add(placement[1])
            gpu.jobs.append(job)
            gpu.running.append(_Running(number, job, now, job.duration))
        while changed:
            cluster[changed.pop()].retune(now, slowdown)
        ends = [running.end for gpu in cluster for running in gpu.running]
        if not ends and not coming:
            break
        event = min([*ends, coming[0][1].arrival] if coming else ends)
        for index, gpu in enumerate(cluster):
            gpu.advance(event - now)
            for running in [running for running in gpu.running if running.end <= event]:
                place, number = gpu.running.index(running), running.number
                del gpu.running[place], gpu.jobs[place]
                changed.add(index)
                finished[number] = Finished(jobs[number], index, running.start, event, failures[number])
        now = event
    seconds = (now - first) * gpus
    return Outcome(
        makespan=now - first,
        nvml_utilisation=sum(gpu.nvml_seconds for gpu in cluster) / seconds,
        occupancy=sum(gpu.occupancy_seconds for gpu in cluster) / seconds,
        finished=tuple(finished[number] for number in range(len(jobs))),
    )
