"""Table VI of the paper: policies side by side on many streams of jobs, under each slowdown curve.

All policies, curves and prediction errors see the same streams, so that they are compared run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from ....errors import InputError
from .job import Job
from .job_kinds import JobKind
from .job_stream import StreamShape, job_stream, with_prediction_error
from .policies import POLICIES, Policy
from .simulation import Outcome, simulate
from .slowdown import Slowdown

BASELINE = "slot"

FIGURES = ("makespan", "nvml_utilisation", "occupancy", "jct", "jct_slowdown", "run_slowdown", "queueing", "failures")
"""Of one run: seconds, ratios, seconds, ratios, ratios, seconds and a count; means over its jobs from ``jct`` on, ``failures``
their sum."""


@dataclass(frozen=True)
class Cluster:
    """Equal GPUs: how many, and bytes of memory of each."""

    gpus: int
    memory: float


def streams(kinds: Sequence[JobKind], shape: StreamShape, runs: int, seed: int, error: float = 0.0) -> list[Sequence[Job]]:
    """``runs`` streams; the error of prediction changes nothing else in them."""
    return [
        with_prediction_error(
            job_stream(kinds, shape, np.random.default_rng([seed, run, 0])), error, np.random.default_rng([seed, run, 1])
        )
        for run in range(runs)
    ]


def compare(
    runs: Sequence[Sequence[Job]],
    cluster: Cluster,
    policies: Mapping[str, Callable[[Slowdown], Policy]],
    curves: Mapping[str, Slowdown],
    tell: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """A row for each curve, policy and run, with the columns ``slowdown``, ``policy``, ``run`` and :data:`FIGURES`."""
    rows = []
    for curve, slowdown in curves.items():
        for name, make in policies.items():
            tell(f"{curve}: {name}")
            for run, jobs in enumerate(runs):
                outcome = simulate(jobs, cluster.gpus, cluster.memory, make(slowdown), slowdown)
                rows.append({"slowdown": curve, "policy": name, "run": run, **figures(outcome)})
    return pd.DataFrame(rows)


def figures(outcome: Outcome) -> dict[str, float]:
    """One run's :data:`FIGURES`."""
    finished = outcome.finished
    means = {name: float(np.mean([getattr(one, name) for one in finished])) for name in FIGURES[3:7]}
    return {
        "makespan": outcome.makespan,
        "nvml_utilisation": outcome.nvml_utilisation,
        "occupancy": outcome.occupancy,
        **means,
        "failures": float(sum(one.failures for one in finished)),
    }


@dataclass(frozen=True)
class Mean:
    """A mean over runs with their standard deviation and the mean's 95 % interval (Student's t); NaN of a single run."""

    mean: float
    sd: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Any) -> Mean:
        """Over one value per run."""
        values = np.asarray(values, dtype=float)
        mean = float(values.mean())
        if values.size < 2:
            return cls(mean, np.nan, np.nan, np.nan)
        sd = float(values.std(ddof=1))
        half = float(student.ppf(0.975, values.size - 1)) * sd / np.sqrt(values.size)
        return cls(mean, sd, float(mean - half), float(mean + half))


@dataclass(frozen=True)
class Summary:
    """One policy under one curve, over all runs.

    Attributes:
        slowdown, policy: their names.
        figures: each of :data:`FIGURES`.
        makespan_gain: ratio by which the mean makespan is below slot-packing's, as Table VI has it; NaN without that.
        utilisation_gain: ratio by which mean NVML utilisation is above slot-packing's; NaN where nothing is known of it.
        run_gain: the gain in makespan run by run, with its spread.
        won: share of runs with a lower makespan than every other policy's.
    """

    slowdown: str
    policy: str
    figures: Mapping[str, Mean]
    makespan_gain: float
    utilisation_gain: float
    run_gain: Mean | None
    won: float


def summarise(rows: pd.DataFrame) -> list[Summary]:
    """Over the rows of :func:`compare`, curve by curve."""
    found = []
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        makespan = of_curve.pivot_table(index="run", columns="policy", values="makespan")
        base = of_curve[of_curve["policy"] == BASELINE]
        for policy, own in of_curve.groupby("policy", sort=False):
            others = makespan.drop(columns=policy)
            won = (makespan[policy] < others.min(axis=1) * (1 - 1e-9)).mean() if len(others.columns) else 1.0
            gains: tuple[float, float, Mean | None] = (np.nan, np.nan, None)
            if not base.empty:
                used, busy = own["nvml_utilisation"].mean(), base["nvml_utilisation"].mean()
                gains = (
                    1 - own["makespan"].mean() / base["makespan"].mean(),
                    used / busy - 1 if busy > 0 else np.nan,
                    Mean.of(1 - makespan[policy] / makespan[BASELINE]),
                )
            found.append(
                Summary(str(curve), str(policy), {name: Mean.of(own[name]) for name in FIGURES}, *gains, won=float(won))
            )
    return found


@dataclass(frozen=True)
class Ordering:
    """Whether Table VI's order holds under a curve: on the means, and in which share of the runs.

    Attributes:
        makespan: occu-packing below nvml-util-packing below slot-packing.
        utilisation: occu-packing's NVML utilisation is the highest of the three.
        makespan_runs, utilisation_runs: shares of runs in which it holds.
        occu_best_runs: share of runs in which occu-packing's makespan is the lowest of the three; the paper has all.
    """

    makespan: bool
    utilisation: bool
    makespan_runs: float
    utilisation_runs: float
    occu_best_runs: float


def orderings(rows: pd.DataFrame) -> dict[str, Ordering]:
    """By curve; empty where one of the paper's three policies is not among the rows."""
    found: dict[str, Ordering] = {}
    for curve, of_curve in rows.groupby("slowdown", sort=False):
        makespan, nvml = (of_curve.pivot_table(index="run", columns="policy", values=name) for name in FIGURES[:2])
        if not {"slot", "nvml-util", "occu"} <= set(makespan):
            continue

        def ordered(one: Any) -> Any:
            return (one["occu"] < one["nvml-util"]) & (one["nvml-util"] < one["slot"])

        def fullest(one: Any) -> Any:
            return (one["occu"] > one["nvml-util"]) & (one["occu"] > one["slot"])

        best = makespan["occu"] < makespan[["slot", "nvml-util"]].min(axis=1)
        found[str(curve)] = Ordering(
            makespan=bool(ordered(makespan.mean())),
            utilisation=bool(fullest(nvml.mean())),
            makespan_runs=float(ordered(makespan).mean()),
            utilisation_runs=float(fullest(nvml).mean()),
            occu_best_runs=float(best.mean()),
        )
    return found


def chosen(names: Sequence[str]) -> dict[str, Callable[[Slowdown], Policy]]:
    """Policies by name, slot-packing always among them and first: gains are against it.

    Raises:
        InputError: there is no policy of that name.
    """
    if unknown := [name for name in names if name not in POLICIES]:
        raise InputError(f"there is no policy {unknown[0]!r}; there are {', '.join(POLICIES)}")
    return {name: POLICIES[name] for name in dict.fromkeys((BASELINE, *names))}
