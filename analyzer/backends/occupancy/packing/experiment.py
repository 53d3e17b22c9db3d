"""Table VI of the paper: policies side by side on many streams of jobs, under each slowdown curve.

All policies and curves see the same streams, so that they are compared run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.simulation import FIGURES, Policy, Slowdown, simulate

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
