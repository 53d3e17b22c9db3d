"""Jobs of a simulated fleet that were answered rightly, next to all that there are.

    OMP_NUM_THREADS=1 python -m lab.speed.fleet.true_jobs [--gpus 16 64 192] [--seeds 11 12 13] [--minutes 10]

A job is **right** if one reported job has exactly its GPUs (those whose traces can be read) for 80 % of its time, and

- where the telemetry shows the cycle (4 whole epochs of a training, or steps of 0.4 s, four samples, and more): states seconds
  that are within 5 % of the true median, and does not call steps epochs;
- where it does not: states no seconds, the true ones, or those of a step or cycle that it does not call an epoch (a training's
  steps are not in the truth). Of serving and notebooks no reported job may state seconds, on any GPUs.

It is **wrong** if its GPUs are put together with those of another job, or if seconds are stated that are false. All else is
**missed**: split, or without an answer. A whole multiple or part of a step is wrong.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from lab.speed.fleet.throughput import Fleet
from lab.speed.page import markdown_table, options

LEAST_EPOCHS = 4
_RIGHT, _COVERED, _LEAST_STEP_S = 0.05, 0.8, 0.4
_MOST_MULTIPLE = 8


def judged(truth: pd.DataFrame, jobs: pd.DataFrame) -> pd.DataFrame:
    """For each true job ``work``, ``gpus``, ``shown`` (its cycle), ``answer`` (right, wrong, missed) and ``why``, not if right.

    ``truth``, ``jobs``: of `lab.simulated_fleet` and `epochcast fleet analyze`.
    """
    readable = truth[(truth["broken"] == "") & truth["job"].notna()]
    rows = []
    for name, own in readable.groupby("job"):
        first = own.iloc[0]
        shown = _shown(first)
        answer, why = _answer(own, readable, jobs, shown)
        rows.append({"job": name, "work": first.work, "gpus": len(own), "shown": shown, "answer": answer, "why": why})
    return pd.DataFrame(rows)


def _shown(row: pd.Series) -> bool:
    if row.work == "training":
        return bool(row.epochs >= LEAST_EPOCHS)
    return row.work in ("steps", "inference") and bool(row.step_s >= _LEAST_STEP_S)


def _answer(own: pd.DataFrame, truth: pd.DataFrame, jobs: pd.DataFrame, shown: bool) -> tuple[str, str]:
    traces, work = set(own["trace"]), own["work"].iloc[0]
    begin, end = own["begin"].min(), own["end"].max()
    overlap = (jobs["end"].clip(upper=end) - jobs["start"].clip(lower=begin)).clip(lower=0)
    shared = jobs["traces"].map(lambda found: len(traces & set(found)))
    near = jobs[(overlap * shared > 0) & (overlap > 0.5 * (jobs["end"] - jobs["start"]).clip(upper=end - begin))]
    if work in ("serving", "notebook"):
        return ("wrong", "seconds of what has no cycle") if near["epoch_s"].notna().any() else ("right", "")
    if near.empty:
        return "missed", "not reported"
    job = near.loc[cast("Any", (overlap * shared)[near.index].idxmax())]
    strangers = truth[truth["trace"].isin(set(job["traces"]) - traces)]
    beside = strangers["end"].clip(upper=job["end"]) - strangers["begin"].clip(lower=job["start"])
    if (beside > 0.5 * (job["end"] - job["start"])).any():
        return "wrong", "GPUs of another job"
    seconds = own["epoch_s" if work == "training" else "step_s"].median()
    if not np.isnan(job["epoch_s"]):
        ratio = job["epoch_s"] / seconds
        named = job["unit"] != "epoch"
        right = abs(ratio - 1) <= _RIGHT and (named or work == "training")
        if not right and (shown or work != "training" or not named):
            larger = max(ratio, 1 / ratio)
            multiple = abs(larger / round(larger) - 1) <= _RIGHT and 2 <= round(larger) <= _MOST_MULTIPLE
            return "wrong", "a whole multiple or part" if multiple else "other seconds"
    elif shown:
        return "missed", "no seconds"
    if set(job["traces"]) != traces:
        return "missed", "split"
    covered = float((overlap * shared)[job.name]) / (len(traces) * (end - begin))
    return ("right", "") if covered >= _COVERED else ("missed", "a part of its time")


def summary(fleets: dict[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Iterator[str]:
    """Yield a table: a row for each name -> (what `judged` gave, reported jobs)."""
    rows = []
    for name, (answers, jobs) in fleets.items():
        counts, why = answers["answer"].value_counts(), answers["why"].value_counts()
        of = answers[answers["answer"] == "right"]
        shown = answers[answers["shown"]]
        rows.append(
            (
                name,
                *(str(each) for each in (len(answers), len(jobs), len(of))),
                f"{len(of) / len(answers):.1%}",
                f"{(shown['answer'] == 'right').sum()} of {len(shown)}",
                *(str(counts.get(kind, 0)) for kind in ("wrong", "missed")),
                ", ".join(f"{count} {reason}" for reason, count in why.items() if reason) or "–",
                str(int((jobs["saving_sure"].fillna(False).astype(bool) & (jobs["unit"] != "epoch")).sum())),
            )
        )
    header = (
        "fleet",
        "true jobs",
        "reported",
        "right",
        "share",
        "of those that show their cycle",
        "wrong",
        "missed",
        "why not right",
    )
    yield from markdown_table((*header, "without epochs among sure savings"), rows)


def idle(truth: pd.DataFrame, gpus: pd.DataFrame) -> str:
    """How many idle hours were found, of how many."""
    true_s = truth[truth["broken"] == ""].groupby("trace")["idle_s"].first()
    found_s = gpus.set_index("trace")["idle_s"].reindex(true_s.index)
    away = (found_s - true_s).dropna().abs()
    return (
        f"{found_s.sum() / 3600:.1f} idle GPU-hours found, {true_s.sum() / 3600:.1f} true; within 15 s on "
        f"{(away <= 15).mean():.0%} of {len(away)} GPUs, at worst {away.max():.0f} s off"
    )


def measured(sizes: list[int], seeds: list[int], minutes: float) -> Iterator[str]:
    """Yield the table of fleets of these sizes and seeds."""
    fleets, idled = {}, []
    for gpus in sizes:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as base:
                fleet = Fleet(Path(base), gpus, minutes, seed)
                fleet.analyse("found", "--processes", 2)
                truth = pd.read_parquet(fleet.folder / "truth.parquet")
                jobs, found = (pd.read_parquet(fleet.base / "found" / f"{table}.parquet") for table in ("jobs", "gpus"))
                fleets[f"{gpus} GPUs, seed {seed}"] = judged(truth, jobs), jobs
                idled.append(f"{gpus} GPUs, seed {seed}: {idle(truth, found)}")
    yield from summary(fleets)
    yield ""
    yield f"{'; '.join(idled)}."


def main() -> None:
    """Measure; print the figures."""
    parser = options(__doc__, page=False)
    parser.add_argument("--gpus", type=int, nargs="+", default=[16, 64, 192])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    for line in measured(arguments.gpus, arguments.seeds, arguments.minutes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
