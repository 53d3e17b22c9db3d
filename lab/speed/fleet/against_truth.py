"""What the analysis of a simulated fleet found, next to the truth. GPUs of one job show the same epochs: a table counts
jobs next to GPUs.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pandas as pd

from lab.speed.page import markdown_table

LEAST_EPOCHS = 4
"""Whole epochs in the trace from which on they can be expected to be found."""
_RIGHT = 0.05
_VERDICTS = ("right", "wrong", "steps", "none", "no work")


def compared(fleet: Path, findings: Path) -> Iterator[str]:
    """Yield all comparisons as Markdown.

    ``fleet``: a folder of `lab.simulated_fleet`; ``findings``: what `epochcast fleet analyze` made of its traces.
    """
    truth = pd.read_parquet(fleet / "truth.parquet")
    tables = {name: pd.read_parquet(findings / f"{name}.parquet") for name in ("gpus", "spans", "jobs", "failures")}
    readable = truth[truth["broken"] == ""]
    broken, failed = set(truth["trace"]) - set(readable["trace"]), set(tables["failures"]["trace"])
    yield from _epochs(readable, tables["spans"])
    yield ""
    yield "A GPU counts once for each kind of work that it did."
    yield ""
    yield _together(readable, tables["jobs"])
    yield _stragglers(readable, tables["jobs"])
    yield _idle(readable, tables["gpus"])
    same = "the same" if broken == failed else "not the same"
    yield f"- Traces that cannot be read: {len(broken)}, reported as such: {len(failed)} ({same})."


def verdicts(truth: pd.DataFrame, spans: pd.DataFrame) -> pd.Series:
    """For each row of the truth what the stretch of work says that overlaps it most: right, wrong, steps, none, or no work."""
    by_trace = dict(iter(spans.groupby("trace")))
    answers = []
    for row in cast("Iterator[Any]", truth.itertuples()):
        own = by_trace.get(row.trace)
        overlap = pd.Series(dtype=float) if own is None else own["end"].clip(upper=row.end) - own["start"].clip(lower=row.begin)
        if overlap.empty or overlap.max() <= 0:
            answers.append("no work")
            continue
        assert own is not None
        span = own.loc[cast("Any", overlap.idxmax())]
        close = span["verdict"] == "epochs" and abs(span["period_s"] / row.epoch_s - 1) <= _RIGHT
        answers.append(span["verdict"] if span["verdict"] != "epochs" else "right" if close else "wrong")
    return pd.Series(answers, index=truth.index, dtype=str)


def _trained(truth: pd.DataFrame) -> pd.DataFrame:
    return truth[(truth["work"] == "training") & (truth["epochs"] >= LEAST_EPOCHS)]


def _epochs(truth: pd.DataFrame, spans: pd.DataFrame) -> list[str]:
    answers = verdicts(truth, spans)
    trains = truth["work"] == "training"
    visible = trains & (truth["epochs"] >= LEAST_EPOCHS)
    groups = {
        f"training, {LEAST_EPOCHS} epochs or more": visible,
        f"training, fewer than {LEAST_EPOCHS} epochs": trains & ~visible,
        "steps without epochs": truth["work"].isin(["steps", "inference"]),
        "neither": truth["work"].isin(["serving", "notebook", "idle"]),
    }
    rows = []
    for name, group in groups.items():
        counts = [int((answers[group] == verdict).sum()) for verdict in _VERDICTS]
        jobs = pd.DataFrame({"job": truth.loc[group, "job"], "right": answers[group] == "right"}).groupby("job")["right"].mean()
        rows.append((name, *map(str, (int(group.sum()), *counts, len(jobs), int((jobs > 0.5).sum())))))
    header = ("what GPUs do", "times", "right (5 %)", *_VERDICTS[1:], "jobs", "right in most of their GPUs")
    return markdown_table(header, rows)


def _together(truth: pd.DataFrame, jobs: pd.DataFrame) -> str:
    """Jobs of several GPUs that have epochs to be found; pairs of GPUs that were put together, and should have been."""
    true_jobs = [frozenset(rows["trace"]) for _, rows in _trained(truth).groupby("job") if len(rows) > 1]
    found = [frozenset(traces) for traces in jobs["traces"] if len(traces) > 1]
    true_pairs, found_pairs = _pairs(true_jobs), _pairs(found)
    wrong = found_pairs - _pairs(frozenset(rows["trace"]) for _, rows in truth.groupby("job"))
    return (
        f"- Jobs of several GPUs, with {LEAST_EPOCHS} epochs or more: {sum(job in found for job in true_jobs)} of "
        f"{len(true_jobs)} with exactly their GPUs; {len(true_pairs & found_pairs)} of {len(true_pairs)} pairs of GPUs "
        f"grouped; {len(wrong)} of {len(found_pairs)} grouped pairs are wrong."
    )


def _pairs(groups: Iterable[Iterable[str]]) -> set[tuple[str, str]]:
    return {pair for members in groups for pair in combinations(sorted(members), 2)}


def _stragglers(truth: pd.DataFrame, jobs: pd.DataFrame) -> str:
    trains = _trained(truth)
    slow = set(trains.loc[trains["straggler"] & (trains["job_gpus"] >= 3), "trace"])
    named = set(jobs["straggler_trace"].dropna())
    wrong = named - set(truth.loc[truth["straggler"], "trace"])
    return (
        f"- Stragglers: {len(slow & named)} of {len(slow)} named in jobs of three GPUs and more with {LEAST_EPOCHS} epochs or "
        f"more; {len(named)} named in all, {len(wrong)} of them wrongly."
    )


def _idle(truth: pd.DataFrame, gpus: pd.DataFrame) -> str:
    true_s = truth.groupby("trace")["idle_s"].first()
    found_s = gpus.set_index("trace")["idle_s"].reindex(true_s.index)
    known = found_s.notna()
    away = (found_s - true_s)[known].abs()
    return (
        f"- Idle time: {found_s[known].sum() / 3600:.1f} GPU-hours detected, {true_s[known].sum() / 3600:.1f} true; within "
        f"15 s on {(away <= 15).mean():.0%} of {len(away)} GPUs, at worst {away.max():.0f} s off; "
        f"not known for {(~known).sum()}."
    )
