"""Jobs made by hand and at random, and the slow, obvious simulation that the fast one must agree with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import PackedGpu, Policy, Slowdown


def job(name: str = "job", **changed: Any) -> PackedJob:
    """A job of 10 s with 40 % occupancy, 50 % NVML utilisation and 1 GB."""
    given: dict[str, Any] = {"arrival": 0.0, "duration": 10.0, "occupancy": 0.4, "nvml_utilisation": 0.5, "memory": 1e9}
    given |= changed
    given.setdefault("predicted_occupancy", given["occupancy"])
    given.setdefault("predicted_memory", given["memory"])
    return PackedJob(name, **given)


def random_jobs(seed: int, count: int = 9, most_memory: float = 4e9) -> list[PackedJob]:
    """Jobs of about 1.5 s that arrive within 4 s, with predictions that are off."""
    rng = np.random.default_rng(seed)
    return [
        job(
            f"job {number}",
            arrival=float(rng.uniform(0, 4)) if number else 0.0,
            duration=float(rng.uniform(0.2, 3)),
            occupancy=float(rng.uniform(0.05, 0.8)),
            predicted_occupancy=float(rng.uniform(0.05, 0.8)),
            nvml_utilisation=float(rng.uniform(0.1, 1)),
            memory=float(rng.uniform(0.1e9, most_memory)),
        )
        for number in range(count)
    ]


@dataclass
class Stepped:
    """Outcome of :func:`in_small_steps`: start and finish by name, integrals over time of the clipped sums."""

    start: dict[str, float] = field(default_factory=dict)
    finish: dict[str, float] = field(default_factory=dict)
    nvml_seconds: float = 0.0
    occupancy_seconds: float = 0.0


def in_small_steps(
    jobs: Sequence[PackedJob], gpus: int, memory: float, policy: Policy, slowdown: Slowdown, step: float = 2e-3
) -> Stepped:
    """The same rules on a clock that ticks: in each step every running job gets ``step`` / slowdown done."""
    machines = [PackedGpu(memory) for _ in range(gpus)]
    left = {one.name: one.duration for one in jobs}
    waiting: list[PackedJob] = []
    coming = sorted(jobs, key=lambda one: one.arrival)
    found, tick = Stepped(), 0
    while len(found.finish) < len(jobs):
        now = tick * step
        for machine in machines:
            for done in [one for one in machine.jobs if left[one.name] <= 1e-9]:
                machine.jobs.remove(done)
                found.finish[done.name] = now
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        while waiting and (placement := policy(waiting, machines)) is not None:
            one = waiting.pop(placement[0])
            machines[placement[1]].jobs.append(one)
            found.start[one.name] = now
        for machine in machines:
            factors = slowdown(machine.jobs)
            found.nvml_seconds += step * min(
                1.0, sum(one.nvml_utilisation / each for one, each in zip(machine.jobs, factors, strict=True))
            )
            found.occupancy_seconds += step * min(
                1.0, sum(one.occupancy / each for one, each in zip(machine.jobs, factors, strict=True))
            )
            for one, each in zip(machine.jobs, factors, strict=True):
                left[one.name] -= step / each
        tick += 1
    return found
