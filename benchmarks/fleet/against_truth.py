"""What the analysis of a simulated fleet found, beside what is true of it.

Run: python -m benchmarks.fleet.against_truth FLEET FINDINGS [--json FILE]

FLEET is a folder of `epochcast fleet simulate`, FINDINGS what `epochcast fleet analyze FLEET/traces` made of it. GPUs of one
job show the same epochs: a table counts jobs beside GPUs.
"""

import argparse
import json
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LEAST_EPOCHS = 4
"""Whole epochs in the trace from which on they can be expected to be found."""
_RIGHT = 0.05


def compared(fleet: Path, findings: Path) -> dict[str, Any]:
    """All comparisons, as plain values."""
    truth = pd.read_parquet(fleet / "truth.parquet")
    tables = {name: pd.read_parquet(findings / f"{name}.parquet") for name in ("gpus", "spans", "jobs", "failures")}
    readable = truth[truth["broken"] == ""]
    broken = set(truth["trace"]) - set(readable["trace"])
    return {
        "gpus": int(truth["trace"].nunique()),
        "jobs": int(truth["job"].nunique()),
        "broken": {
            "true": len(broken),
            "told": len(set(tables["failures"]["trace"])),
            "same": broken == set(tables["failures"]["trace"]),
        },
        "epochs": _epochs(readable, tables["spans"]),
        "jobs_together": _together(readable, tables["jobs"]),
        "stragglers": _stragglers(readable, tables["jobs"]),
        "idle": _idle(readable, tables["gpus"]),
    }


def verdicts(truth: pd.DataFrame, spans: pd.DataFrame) -> pd.Series:
    """For each row of the truth what the stretch of work says that overlaps it most: right, wrong, steps, none, or no work."""
    by_trace = dict(iter(spans.groupby("trace")))
    told = []
    for row in truth.itertuples():
        own = by_trace.get(row.trace)
        overlap = pd.Series(dtype=float) if own is None else own["end"].clip(upper=row.end) - own["start"].clip(lower=row.begin)
        if overlap.empty or overlap.max() <= 0:
            told.append("no work")
            continue
        span = own.loc[overlap.idxmax()]
        if span["verdict"] != "epochs":
            told.append(span["verdict"])
        else:
            told.append("right" if abs(span["period_s"] / row.epoch_s - 1) <= _RIGHT else "wrong")
    return pd.Series(told, index=truth.index, dtype=str)


def _epochs(truth: pd.DataFrame, spans: pd.DataFrame) -> dict[str, Any]:
    told = verdicts(truth, spans)
    trains = truth["work"] == "training"
    visible = trains & (truth["epochs"] >= LEAST_EPOCHS)
    groups = {
        f"training, {LEAST_EPOCHS} epochs or more": visible,
        f"training, fewer than {LEAST_EPOCHS} epochs": trains & ~visible,
        "steps without epochs": truth["work"].isin(["steps", "inference"]),
        "neither": truth["work"].isin(["serving", "notebook", "idle"]),
    }
    found = {}
    for name, group in groups.items():
        rows = told[group]
        jobs = pd.DataFrame({"job": truth.loc[group, "job"], "right": rows == "right"}).groupby("job")["right"].mean()
        found[name] = {
            "gpus": len(rows),
            **{verdict: int((rows == verdict).sum()) for verdict in ("right", "wrong", "steps", "none", "no work")},
            "jobs": len(jobs),
            "jobs_right": int((jobs > 0.5).sum()),
        }
    return found


def _together(truth: pd.DataFrame, jobs: pd.DataFrame) -> dict[str, Any]:
    """Jobs of several GPUs that have epochs to be found; pairs of GPUs that were put together, and should have been."""
    trains = truth[(truth["work"] == "training") & (truth["epochs"] >= LEAST_EPOCHS)]
    true_jobs = {job: frozenset(rows["trace"]) for job, rows in trains.groupby("job") if len(rows) > 1}
    found = [frozenset(traces) for traces in jobs["traces"] if len(traces) > 1]
    true_pairs, found_pairs = _pairs(true_jobs.values()), _pairs(found)
    any_pairs = _pairs(frozenset(rows["trace"]) for _, rows in truth.groupby("job"))
    return {
        "jobs": len(true_jobs),
        "exactly": sum(members in found for members in true_jobs.values()),
        "pairs": len(true_pairs),
        "pairs_found": len(true_pairs & found_pairs),
        "pairs_told": len(found_pairs),
        "pairs_told_wrong": len(found_pairs - any_pairs),
    }


def _pairs(groups: Iterable[Iterable[str]]) -> set[tuple[str, str]]:
    return {pair for members in groups for pair in combinations(sorted(members), 2)}


def _stragglers(truth: pd.DataFrame, jobs: pd.DataFrame) -> dict[str, int]:
    """Of jobs of three GPUs and more with epochs to be found."""
    trains = truth[(truth["work"] == "training") & (truth["epochs"] >= LEAST_EPOCHS) & (truth["job_gpus"] >= 3)]
    slow = set(trains.loc[trains["straggler"], "trace"])
    told = set(jobs["straggler_trace"].dropna())
    return {
        "jobs": int(trains["job"].nunique()),
        "true": len(slow),
        "found": len(slow & told),
        "told": len(told),
        "told_wrong": len(told - set(truth.loc[truth["straggler"], "trace"])),
    }


def _idle(truth: pd.DataFrame, gpus: pd.DataFrame) -> dict[str, float]:
    true_s = truth.groupby("trace")["idle_s"].first()
    told_s = gpus.set_index("trace")["idle_s"].reindex(true_s.index)
    known = told_s.notna()
    away = (told_s - true_s)[known]
    return {
        "gpus": int(known.sum()),
        "unknown": int((~known).sum()),
        "true_hours": float(true_s[known].sum() / 3600),
        "told_hours": float(told_s[known].sum() / 3600),
        "within_15_s": float((away.abs() <= 15).mean()),
        "worst_s": float(np.abs(away).max()),
    }


def lines_of(told: dict[str, Any]) -> list[str]:
    """The comparison as lines of Markdown."""
    groups = told["epochs"].items()
    table = ["| what GPUs do | times | right (5 %) | wrong | steps | none | no work | jobs | right in most of their GPUs |"]
    table.append("|---" + "|---:" * 8 + "|")
    for name, row in groups:
        figures = [row[key] for key in ("gpus", "right", "wrong", "steps", "none", "no work", "jobs", "jobs_right")]
        table.append(f"| {name} | " + " | ".join(map(str, figures)) + " |")
    together, slow, idle, broken = (told[name] for name in ("jobs_together", "stragglers", "idle", "broken"))
    return [
        *table,
        "",
        "A GPU counts once for each thing that it did.",
        "",
        f"- Jobs of several GPUs, with {LEAST_EPOCHS} epochs or more: {together['exactly']} of {together['jobs']} with exactly "
        f"their GPUs; {together['pairs_found']} of {together['pairs']} pairs of GPUs put together, and "
        f"{together['pairs_told_wrong']} of {together['pairs_told']} pairs that are no pair.",
        f"- Stragglers: {slow['found']} of {slow['true']} named in jobs of three GPUs and more with {LEAST_EPOCHS} epochs or "
        f"more; {slow['told']} named in all, {slow['told_wrong']} of them wrongly.",
        f"- Idle time: {idle['told_hours']:.1f} GPU-hours told, {idle['true_hours']:.1f} true; within 15 s on "
        f"{100 * idle['within_15_s']:.0f} % of {idle['gpus']} GPUs, at worst {idle['worst_s']:.0f} s off; not told of "
        f"{idle['unknown']}.",
        f"- Traces that cannot be read: {broken['true']}, told as such: {broken['told']}"
        f"{' (the same)' if broken['same'] else ' (not the same)'}.",
    ]


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fleet", type=Path)
    parser.add_argument("findings", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    told = compared(options.fleet, options.findings)
    print("\n".join(lines_of(told)))
    if options.json:
        options.json.write_text(json.dumps({"simulated": True, **told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
