"""``telemetry.csv.gz`` and ``runs.json`` of ``record_epochs.py``: one session of many labelled runs.

The telemetry is one table of one GPU at 10 Hz; its column ``run`` says what ran (two names joined by ``+`` if together, empty
between runs). The JSON next to it holds each run's phases and its epochs' true marks, on the same clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column
from epochcast.dcgm_names import MIB, SHORT_NAMES

#: Column -> (name in the metric catalogue, factor to its base unit).
METRICS = {
    **SHORT_NAMES,
    "POWER_INST": ("power", 1.0),
    "POWER_AVG": ("power_average", 1.0),
    "ENERGY_MJ": ("energy", 1e-3),
    "MEMCLK": ("memory_clock", 1e6),
    "GTEMP": ("temperature", 1.0),
    "FBUSED": ("memory_used", MIB),
    "B1USE": ("bar1_used", MIB),
    "B1FRE": ("bar1_free", MIB),
    "CPU_UTIL": ("cpu_utilization", 0.01),
    "RSS": ("rss", MIB),
}

# Of the sampler itself, not of the device.
_OWN = {"mono", "run", "GPM_DT_MS", "TICK_US", "MISSED"}


def recognises(head: str) -> bool:
    """By the columns ``time,mono,run`` and a metric's."""
    columns = head.partition("\n")[0].strip().split(",")
    return {"time", "mono", "run"} <= set(columns) and not METRICS.keys().isdisjoint(columns)


def convert(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Catalogue names and base units; other columns as they are, the sampler's own left out.

    Raises InputError for a reading that is no number, calling the table ``name``.
    """
    frame = pd.DataFrame({"time": table["time"]})
    for column in table.columns.drop("time"):
        if column in METRICS:
            metric, factor = METRICS[column]
            frame[metric] = numeric_column(table[column], column, name) * factor
        elif column not in _OWN:
            frame[column] = table[column]
    return frame


def missed(table: pd.DataFrame) -> int:
    """Ticks that were lost while the table was recorded; the column counts from the session's start."""
    count = pd.to_numeric(table["MISSED"], errors="coerce") if "MISSED" in table else pd.Series(dtype=float)
    count = count[np.isfinite(count)]
    return int(count.iloc[-1] - count.iloc[0]) if len(count) else 0


def labelled(
    table: pd.DataFrame, document: Mapping[str, Any], name: str
) -> Iterator[tuple[str, NDArray[np.bool_], dict[str, Any]]]:
    """Every run that ended well, as (its name, its rows of the table, the object of a label file).

    Two runs at the same time are one trace of two jobs. The blocks that measure the sampler's cost are no runs: it sleeps
    through half of them.

    Args:
        table: the telemetry, as parsed.
        document: the content of ``runs.json``.
        name: of its file, for messages.
    """
    label = table["run"].fillna("").to_numpy()
    try:
        runs = {run["spec"]["name"]: run for run in document["runs"]}
        static = document["static"].get("nvml", {})
        for together in dict.fromkeys(label):
            # A session that was killed has rows of a run that its JSON does not know yet.
            jobs = [runs[part] for part in str(together).split("+") if part in runs]
            if jobs and len(jobs) == str(together).count("+") + 1 and all(map(_usable, jobs)):
                yield str(together), label == together, {**_marks(jobs), "gpu": static.get("Name")}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name!r} is not record_epochs.py's runs.json next to its telemetry: it lacks {error}") from error


def _usable(job: Mapping[str, Any]) -> bool:
    """One epoch has no period, yet a run of one is no trace without epochs either."""
    kind = job["spec"]["kind"]
    return job["status"] == "ok" and kind != "overhead" and (kind != "train" or len(job["epochs"]) >= 2)


def _marks(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    training = [job for job in jobs if job["spec"]["kind"] == "train"]
    marks: dict[str, Any] = {"cls": _cls(jobs), "training": bool(training), "epoch_starts": [], "epoch_ends": []}
    for suffix, job in zip(("", "2"), training, strict=False):
        marks[f"epoch_starts{suffix}"] = [epoch["start"] for epoch in job["epochs"]]
        marks[f"epoch_ends{suffix}"] = [epoch["end"] for epoch in job["epochs"]]
    return marks


def _cls(jobs: list[dict[str, Any]]) -> str:
    if len(jobs) > 1:
        return "two_jobs"
    spec = jobs[0]["spec"]
    if spec["kind"] != "train":
        return str(spec["kind"])
    return "+".join(["train", *(["validation"] if spec["val"] else []), *(["checkpoint"] if spec["ckpt_every"] else [])])
