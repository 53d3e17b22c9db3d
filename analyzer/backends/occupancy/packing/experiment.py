"""Table VI of the paper: policies side by side on many streams of jobs, under each slowdown curve.

All policies and curves see the same streams, so that they are compared run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import Policy, Slowdown
from epochcast.analyzer.backends.occupancy.packing.simulation import Outcome, simulate

BASELINE = "slot"
"""The policy that gains are against."""

_OF_JOBS = ("jct", "jct_slowdown", "run_slowdown")

FIGURES = ("makespan", "nvml_utilisation", "occupancy", *_OF_JOBS, "failures")
"""Of one run: seconds, ratios, means over its jobs in seconds and ratios, and how often a job ran out of memory."""


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
                outcome = simulate(jobs, gpus, memory, policy, slowdown)
                rows.append({"slowdown": curve, "policy": name, "run": run, **figures(outcome)})
    return pd.DataFrame(rows)


def figures(outcome: Outcome) -> dict[str, float]:
    """One run's :data:`FIGURES`."""
    return {
        "makespan": outcome.makespan,
        "nvml_utilisation": outcome.nvml_utilisation,
        "occupancy": outcome.occupancy,
        **{name: float(np.mean([getattr(job, name) for job in outcome.finished])) for name in _OF_JOBS},
        "failures": float(sum(job.failures for job in outcome.finished)),
    }


@dataclass(frozen=True)
class RunStatistics:
    """A mean over runs with their standard deviation and the mean's 95 % interval (Student's t); NaN of a single run."""

    mean: float
    sd: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Any) -> RunStatistics:
        """Over one value per run."""
        values = np.asarray(values, dtype=float)
        mean = float(values.mean())
        if values.size < 2:
            return cls(mean, np.nan, np.nan, np.nan)
        sd = float(values.std(ddof=1))
        half = float(student.ppf(0.975, values.size - 1)) * sd / np.sqrt(values.size)
        return cls(mean, sd, float(mean - half), float(mean + half))


@dataclass(frozen=True)
class PolicySummary:
    """One policy under one curve, over all runs.

    Attributes:
        slowdown, policy: their names.
        figures: each of :data:`FIGURES`.
        makespan_gain: ratio by which the mean makespan is below slot-packing's, as Table VI has it.
        utilisation_gain: ratio by which mean NVML utilisation is above slot-packing's; NaN where that is 0.
        run_gain: the gain in makespan run by run, with its spread.
        won: share of runs with a lower makespan than every other policy's.
    """

    slowdown: str
    policy: str
    figures: Mapping[str, RunStatistics]
    makespan_gain: float
    utilisation_gain: float
    run_gain: RunStatistics
    won: float


def summarise(rows: pd.DataFrame) -> list[PolicySummary]:
    """Over the rows of :func:`compare`, curve by curve; slot-packing and another policy must be among them."""
    summaries = []
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        makespan = of_curve.pivot_table(index="run", columns="policy", values="makespan")
        base = of_curve[of_curve["policy"] == BASELINE]
        busy = base["nvml_utilisation"].mean()
        for policy, own in of_curve.groupby("policy", sort=False):
            others = makespan.drop(columns=policy).min(axis=1)
            summaries.append(
                PolicySummary(
                    str(curve),
                    str(policy),
                    {name: RunStatistics.of(own[name]) for name in FIGURES},
                    makespan_gain=float(1 - own["makespan"].mean() / base["makespan"].mean()),
                    utilisation_gain=float(own["nvml_utilisation"].mean() / busy - 1) if busy > 0 else np.nan,
                    run_gain=RunStatistics.of(1 - makespan[policy] / makespan[BASELINE]),
                    won=float((makespan[policy] < others * (1 - 1e-9)).mean()),
                )
            )
    return summaries


@dataclass(frozen=True)
class Ordering:
    """Whether Table VI's order holds under a curve: on the means, and in which share of the runs.

    Attributes:
        makespan: occu-packing below nvml-util-packing below slot-packing.
        utilisation: occu-packing's NVML utilisation is the highest of the three.
        makespan_runs, utilisation_runs: shares of runs in which it holds.
    """

    makespan: bool
    utilisation: bool
    makespan_runs: float
    utilisation_runs: float


def orderings(rows: pd.DataFrame) -> dict[str, Ordering]:
    """By curve, of rows with the paper's three policies."""

    def hold(of_curve: pd.DataFrame) -> Any:
        """For each line of means or runs, whether either order holds."""
        seconds, nvml = of_curve["makespan"], of_curve["nvml_utilisation"]
        ordered = (seconds["occu"] < seconds["nvml-util"]) & (seconds["nvml-util"] < seconds["slot"])
        return ordered, (nvml["occu"] > nvml["nvml-util"]) & (nvml["occu"] > nvml["slot"])

    by_curve = {}
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        table = of_curve.pivot_table(index="run", columns="policy", values=["makespan", "nvml_utilisation"])
        means = hold(of_curve.pivot_table(index="policy", values=["makespan", "nvml_utilisation"]))
        by_curve[str(curve)] = Ordering(*(bool(one) for one in means), *(float(one.mean()) for one in hold(table)))
    return by_curve
