"""One stream of jobs on GPUs, event by event, under slot-, nvml-util- and occu-packing of section VI.

A policy says which waiting job goes on which GPU. It is called again after each placement until it has none. It sees
predictions of what waits, what running jobs hold of the memory, and nothing of what will come. The paper names bin packing and
no more. Assumed here: waiting jobs are tried in the order of their arrival and a job that fits nowhere lets later ones pass
(no job holds the others up); of the GPUs that take a job, the fullest gets it (best fit). A GPU without jobs takes any job.
Memory counts for all that co-locate: the paper's packing is meant to avoid failures, and a comparison in which only one side
minds the memory would measure that.

A slowdown says for the jobs on one GPU how many times as long each takes as alone: 1 or more, and 1 for a job that is alone.
None of these curves was measured.

Each running job gets done at the rate 1 / slowdown, which changes whenever a job joins or leaves its GPU. Jobs neither move
nor pause. A job that does not find the memory it truly needs fails as it starts and is submitted again, with that need known
and behind those that wait then (the paper's "job resubmission caused by out-of-memory failures"); the failure itself is taken
to cost no time.

NVML utilisation of a GPU is min(1, sum of the jobs' utilisations / slowdowns): the seconds in which a job's kernels run are
part of its work, so they are the same alone and next to others, and kernels of different jobs run one after the other as long
as there is room. By the paper's Table VI makespan x utilisation is nearly the same for its three policies (5.4 % more for
occu-packing than for slot-packing, 5.1 % less for nvml-util-packing), which is what this definition gives. Occupancy is
min(1, sum of occupancies / slowdowns), on the same grounds.

Table VI of the paper: policies side by side on many streams of jobs, under each slowdown curve. All policies and curves see
the same streams, so that they are compared run by run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.errors import InputError


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


BASELINE = "slot"
"""The policy that gains are against."""


def compare(
    runs: Sequence[Sequence[PackedJob]],
    gpus: int,
    memory: float,
    policies: Mapping[str, Policy],
    curves: Mapping[str, Slowdown],
    progress: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """A row for each curve, policy and run, with the columns ``slowdown``, ``policy``, ``run`` and :data:`FIGURES`.

    Args:
        runs: streams of jobs.
        gpus: how many there are.
        memory: bytes of each GPU.
        policies, curves: by the names that the rows get.
        progress: called with a line on what is simulated now.
    """
    rows = []
    for curve, slowdown in curves.items():
        for name, policy in policies.items():
            progress(f"{curve}: {name}")
            for run, jobs in enumerate(runs):
                figures, _ = simulate(jobs, gpus, memory, policy, slowdown)
                rows.append({"slowdown": curve, "policy": name, "run": run, **figures})
    return pd.DataFrame(rows)


def mean_over_runs(values: Any) -> dict[str, float]:
    """``mean``, its 95 % interval (Student's t) ``low`` to ``high``, and ``sd``, of one value per run; NaN of a single run."""
    values = np.asarray(values, dtype=float)
    mean, sd = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else np.nan
    half = float(student.ppf(0.975, values.size - 1)) * sd / np.sqrt(values.size) if values.size > 1 else np.nan
    return {"mean": mean, "sd": sd, "low": float(mean - half), "high": float(mean + half)}


def summarise(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One row per curve and policy of :func:`compare`'s; slot-packing and another policy must be among them.

    ``slowdown`` and ``policy``; ``figures``: :func:`mean_over_runs` of each of :data:`FIGURES`; ``makespan_gain``: ratio by
    which the mean makespan is below slot-packing's, as Table VI has it; ``utilisation_gain``: ratio by which mean NVML
    utilisation is above it, NaN where that is 0; ``won``: share of runs with a lower makespan than every other policy's.
    """
    summaries = []
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        makespan = of_curve.pivot_table(index="run", columns="policy", values="makespan")
        base = of_curve[of_curve["policy"] == BASELINE]
        busy = base["nvml_utilisation"].mean()
        for policy, own in of_curve.groupby("policy", sort=False):
            others = makespan.drop(columns=policy).min(axis=1)
            summaries.append(
                {
                    "slowdown": str(curve),
                    "policy": str(policy),
                    "figures": {name: mean_over_runs(own[name]) for name in FIGURES},
                    "makespan_gain": float(1 - own["makespan"].mean() / base["makespan"].mean()),
                    "utilisation_gain": float(own["nvml_utilisation"].mean() / busy - 1) if busy > 0 else np.nan,
                    "won": float((makespan[policy] < others * (1 - 1e-9)).mean()),
                }
            )
    return summaries


def orderings(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """By curve whether Table VI's order holds, of rows with the paper's three policies.

    ``makespan``: of the means, occu-packing is below nvml-util-packing and that below slot-packing; ``utilisation``:
    occu-packing's NVML utilisation is the highest of the three; ``makespan_runs``, ``utilisation_runs``: shares of runs in
    which these hold.
    """

    def hold(of_curve: pd.DataFrame) -> Any:
        """For each line of means or runs, whether either order holds."""
        seconds, nvml = of_curve["makespan"], of_curve["nvml_utilisation"]
        ordered = (seconds["occu"] < seconds["nvml-util"]) & (seconds["nvml-util"] < seconds["slot"])
        return ordered, (nvml["occu"] > nvml["nvml-util"]) & (nvml["occu"] > nvml["slot"])

    by_curve = {}
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        table = of_curve.pivot_table(index="run", columns="policy", values=["makespan", "nvml_utilisation"])
        makespan, utilisation = hold(of_curve.pivot_table(index="policy", values=["makespan", "nvml_utilisation"]))
        runs = [float(one.mean()) for one in hold(table)]
        by_curve[str(curve)] = {
            "makespan": bool(makespan),
            "utilisation": bool(utilisation),
            "makespan_runs": runs[0],
            "utilisation_runs": runs[1],
        }
    return by_curve
