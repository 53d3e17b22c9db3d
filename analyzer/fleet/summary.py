"""What the report says of a fleet: its tables added up, and the worst rows of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.detector import Kind

TABLE_ROWS = 25
"""Rows of each table of the report; the Parquet files have all."""

_HOUR_S = 3600.0
_HOURS_PER_MONTH = 730.0

# A hole so long is none of a recorder that stumbled: the clock was set, or the machine was off.
_LONG_HOLE_S = 86_400.0

# A month is shown only for a day or more, and where traces cover this share of the GPUs' time; else it would be made of gaps.
_LEAST_HOURS, _LEAST_COVERAGE = 24.0, 0.5

# Columns that are not read: nearly all bytes of these tables.
_UNREAD = {"spans": {"profile"}, "jobs": {"gpus", "traces", "notes", "answer"}}

NO_CYCLE = "none"
"""Of jobs of which no seconds are known."""


def summary_of(out: Path) -> dict[str, Any]:
    """Return what the tables in the folder ``out`` add up to; figures without a value are NaN."""
    gpus, spans, jobs, failures = (_table(out, name) for name in ("gpus", "spans", "jobs", "failures"))
    hours, coverage = _watched(gpus.to_pandas(), spans.to_pandas())
    return {
        **_of_gpus(gpus, spans.to_pandas()),
        "hours": hours,
        "coverage": coverage,
        "failed": failures.num_rows,
        "failures": _kinds(failures.to_pandas().rename(columns={"error": "example"})),
        **_of_jobs(jobs, hours, coverage),
    }


def _table(out: Path, name: str) -> pa.Table:
    with pq.ParquetFile(out / f"{name}.parquet") as file:
        return file.read([column for column in file.schema_arrow.names if column not in _UNREAD.get(name, ())])


# Columns of `gpus.parquet` that the report's tables show.
_IDLE_COLUMNS = ["trace", "node", "name", "assumed", "idle_s", "idle_ratio", "idle_usd", "held_idle_s", "held_idle_usd"]


def _of_gpus(table: pa.Table, spans: pd.DataFrame) -> dict[str, Any]:
    gpus = table.to_pandas()
    found = Counter(_best(verdicts) for _, verdicts in spans.groupby("trace")["verdict"])
    found["idle"] = len(gpus) - found.total()
    idle = gpus[gpus["idle_s"] > 0]
    problems = gpus[["trace", "problems"]].explode("problems").dropna().set_axis(["trace", "example"], axis=1)
    return {
        "gpus": gpus["uuid"].nunique(),
        "nodes": gpus["node"].nunique(),
        "traces": len(gpus),
        "simulated": int(gpus["simulated"].sum()),
        "start": float(gpus["start"].min()),
        "end": float(gpus["end"].max()),
        "gpu_hours": float(gpus["seconds"].sum()) / _HOUR_S,
        "cpu_s": float(gpus["cpu_s"].sum()),
        "found": {verdict: found[verdict] for verdict in ("epochs", "steps", "none", "idle")},
        "models": [{"gpu": name, **_hours(of_model)} for name, of_model in gpus.groupby("name")],
        "idle": {
            **_hours(gpus),
            "assumed": int((gpus["assumed"] & gpus["idle_usd"].notna()).sum()),
            "gpus": len(idle),
            "worst": _largest(table.select(_IDLE_COLUMNS), idle["idle_usd"].fillna(idle["idle_s"] / _HOUR_S), gpus["trace"]),
        },
        "quality": {"with_problems": problems.index.nunique(), "problems": _kinds(problems)},
    }


def _best(verdicts: pd.Series) -> str:
    """What was found in a trace: the best of its stretches."""
    return next(verdict for verdict in ("epochs", "steps", "none") if (verdicts == verdict).any())


def _hours(gpus: pd.DataFrame) -> dict[str, Any]:
    """Of some traces: hours, those of which idleness is known, and what idleness cost; the same of being held but idle.

    Nothing of being held where no trace shows it, and no cost where none of these has a price.
    """
    known, held = gpus[gpus["idle_s"].notna()], gpus[gpus["held_idle_s"].notna()]
    held_s, unpriced_s = held["held_idle_s"].sum(), held["held_idle_s"][held["held_idle_usd"].isna()].sum()
    priced = unpriced_s < held_s or held_s == 0
    return {
        "traces": len(gpus),
        "gpu_hours": float(gpus["seconds"].sum()) / _HOUR_S,
        "known_hours": float(known["seconds"].sum()) / _HOUR_S,
        "idle_hours": float(known["idle_s"].sum()) / _HOUR_S,
        "idle_ratio": float(known["idle_s"].sum() / known["seconds"].sum()) if known["seconds"].any() else None,
        "idle_usd": float(known["idle_usd"].sum()),
        "unpriced": int(known["idle_usd"].isna().sum()),
        "held_idle_hours": float(held_s) / _HOUR_S if len(held) else None,
        "held_idle_unpriced_hours": float(unpriced_s) / _HOUR_S if len(held) else None,
        "held_idle_usd": float(held["held_idle_usd"].sum()) if len(held) and priced else None,
    }


def _kinds(said: pd.DataFrame) -> list[dict[str, Any]]:
    """Sentences (``example``, of ``trace``) counted by what is left of them without figures and quoted names; the commonest."""
    kind = said["example"].astype(str).str.replace(r"'[^']*'|\d[\d.,:]*", "…", regex=True)
    ordered = said.assign(kind=kind, count=1).sort_values(["trace", "example"])
    kinds = ordered.groupby("kind").agg({"count": "size", "example": "first", "trace": "first"})
    kinds = kinds.reset_index().sort_values(["count", "kind"], ascending=[False, True]).drop(columns="kind")
    left = int(kinds["count"][TABLE_ROWS:].sum())
    rows: list[Any] = kinds[:TABLE_ROWS].to_dict("records")
    return rows + ([{"count": left, "example": "of other kinds", "trace": ""}] if left else [])


def _largest(table: pa.Table, value: pd.Series, name: pd.Series) -> list[dict[str, Any]]:
    """The rows of the largest values; of equal ones the first by name."""
    order = pd.DataFrame({"value": -value, "name": name[value.index]}).sort_values(["value", "name"])
    rows: list[dict[str, Any]] = table.take(order.index[:TABLE_ROWS].to_numpy(dtype=np.int64)).to_pylist()
    return rows


def _watched(gpus: pd.DataFrame, spans: pd.DataFrame) -> tuple[float, float | None]:
    """Hours in which any GPU was watched, and the share that traces cover of all GPUs' time, at most 1 (copies).

    Of a trace with a long hole only its work shows where the telemetry is.
    """
    steady = gpus[gpus["longest_hole_s"] <= _LONG_HOLE_S]
    seen = pd.concat([steady[["start", "end"]], spans[~spans["trace"].isin(steady["trace"])][["start", "end"]]])
    seen = seen.sort_values("start")
    reached = seen["end"].cummax().shift()
    hours = float((seen["end"] - np.fmax(seen["start"], reached)).clip(lower=0).sum()) / _HOUR_S
    whole = steady if len(steady) and steady["end"].max() > steady["start"].min() else gpus
    length_s = (whole["end"].max() - whole["start"].min()) * gpus["uuid"].nunique()
    return hours, min(1.0, float(gpus["seconds"].sum() / length_s)) if length_s > 0 else None


# Columns of `jobs.parquet` that the report's tables show.
_JOB_COLUMNS = [
    *("job", "title", "gpu_count", "gpu_model", "nodes", "gpu_hours", "unit", "epoch_s", "simulated", "busy_ratio"),
    *("ofu", "tensor_cores_idle", "held_idle_s", "held_idle_usd", "reduced_clock"),
    *("idle_at_boundaries", "action", "advice", "best_by_data_sheet"),
    *("current_instance", "current_cloud", "current_assumed", "current_usd_per_hour"),
    *("best_instance", "best_cloud", "best_region", "best_gpu", "best_instances"),
    *("best_usd_per_hour", "best_ratio"),
    *("saving_ratio", "saving_ratio_low", "saving_ratio_high", "saving_usd_per_hour", "saving_usd"),
    *("straggler", "straggler_trace", "straggler_why", "waits", "waits_gpu_hours"),
]


def _of_jobs(table: pa.Table, hours: float, coverage: float | None) -> dict[str, Any]:
    """``hours``, ``coverage``: see `_watched`."""
    jobs, shown = table.to_pandas(), table.select(_JOB_COLUMNS)
    cycles = jobs.groupby(jobs["cycle"].fillna(jobs["unit"]).fillna(NO_CYCLE))["gpu_hours"].agg(["size", "sum"])
    together, known = jobs["gpu_count"][jobs["gpu_count"] > 1], jobs[jobs["ofu"].notna()]
    moves, sure = jobs["saving_ratio"] > 0, jobs["saving_sure"].eq(True)
    certain, unsure, stay = (_money(jobs[kind]) for kind in (moves & sure, moves & ~sure, jobs["saving_ratio"] <= 0))
    per_hour = certain["saved_usd"] / hours if hours else None
    monthly = per_hour is not None and hours >= _LEAST_HOURS and coverage is not None and coverage >= _LEAST_COVERAGE
    waiting = jobs["waits_gpu_hours"].dropna()
    return {
        "jobs": len(jobs),
        "gpus_in_jobs_of_several": int(together.sum()),
        "job_cycles": {
            kind: {"jobs": int(cycles["size"][kind]), "gpu_hours": float(cycles["sum"][kind])}
            for kind in (*get_args(Kind), NO_CYCLE)
            if kind in cycles.index
        },
        "use": {
            "ofu": float((known["ofu"] * known["gpu_hours"]).sum() / known["gpu_hours"].sum()) if len(known) else None,
            "ofu_gpu_hours": float(known["gpu_hours"].sum()),
            "tensor_cores_idle_jobs": int(jobs["tensor_cores_idle"].sum()),
            "reduced_clock_jobs": int(jobs["reduced_clock"].notna().sum()),
        },
        "savings": {
            "sure": certain,
            "unsure": unsure,
            "stay": stay,
            "unknown": int(jobs["saving_ratio"].isna().sum()),
            "usd": certain["usd"] + unsure["usd"] + stay["usd"],
            "usd_per_hour": per_hour,
            "usd_per_month": _HOURS_PER_MONTH * per_hour if monthly and per_hour is not None else None,
            "most": _largest(shown, jobs["saving_usd"][moves & sure], jobs["job"]),
        },
        "stragglers": {
            "jobs": len(waiting),
            "gpu_hours": float(waiting.sum()),
            "worst": _largest(shown, waiting, jobs["job"]),
        },
    }


def _money(jobs: pd.DataFrame) -> dict[str, float]:
    """Of some jobs, of the time that was analysed: how many, USD that they cost and save, and both ends of the saving."""
    usd = jobs["current_usd_per_hour"] * jobs["gpu_hours"] / jobs["gpu_count"]
    return {
        "jobs": len(jobs),
        "assumed": int(jobs["current_assumed"].eq(True).sum()),
        "by_data_sheet": int(jobs["best_by_data_sheet"].eq(True).sum()),
        "usd": float(usd.sum()),
        "saved_usd": float((usd * jobs["saving_ratio"]).sum()),
        "low": float((usd * jobs["saving_ratio_low"]).sum()),
        "high": float((usd * jobs["saving_ratio_high"]).sum()),
    }
