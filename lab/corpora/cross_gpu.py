"""Rates of equal work on several GPUs, gathered from public benchmarks (``rates.csv.gz``): one row per GPU and kind of work.

``work`` is the key of equal work; without the number of GPUs in it, it becomes the workload. ``group`` is the family that
leave-one-out goes by, ``source`` the origin. An epoch is one unit of work: ``epoch_s`` is the inverse of ``rate``.

``single`` precision is FP32 code: on the GPUs of the origin ``gavel`` nothing but FP32, elsewhere TF32 on Ampere and newer.
Telemetry is mostly missing. Where only the mean of the power is given, its statistics are those of a constant.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochcast.regressor.errors import InputError
from epochcast.regressor.job_types import JobType, job_type_of
from epochcast.regressor.precision import PRECISIONS
from epochcast.regressor.profile import STATISTICS, Profile, Unit, feature_set
from lab.corpora.csv_table import read_table

SIGNATURE = ("work", "rate")
"""Columns that identify this file."""

_WORDS = ["source", "group", "precision", "gpu", "unit", "work"]
_METRICS = ("gpu_utilization", "memory_used", "temperature")
_BATCH_OF_ALL = ("lambda", "mlperf")  # their batch is that of all GPUs together, of other sources that of each
_ITEMS = ("items/s", "images/s")  # what a batch counts; of tokens, frames and samples of sound it does not
_TOKENS = re.compile(r"transformer-?xl|gnmt|tacotron|fastpitch|hifigan|waveglow", re.I)
_TYPES: dict[str, JobType] = {"megatron_bridge": "llm"}  # where groups are no names of networks
_UNITS: dict[str, Unit] = {"epochs/s": "epoch", "iterations/s": "step"}  # items/s are neither


def load(path: Path) -> list[Profile]:
    """Read the CSV into one profile per row, in its order.

    Raises:
        InputError: the file is unreadable, empty, lacks a column, or a cell is empty or impossible.
    """
    rows = read_table(path, _WORDS, [], ["rate"]).to_dict("records")
    return [
        _profile({str(name): value for name, value in row.items() if value == value}, f"{path.name}, row {number}")
        for number, row in enumerate(rows, start=2)
    ]


def _profile(row: Mapping[str, Any], where: str) -> Profile:
    """The profile of a row without its empty cells."""
    metrics = {name: {of: float(row[f"{name}_{of}"]) for of in STATISTICS} for name in _METRICS if f"{name}_mean" in row}
    if "power_mean" in row:
        metrics["power"] = dict.fromkeys(STATISTICS, float(row["power_mean"])) | {"std": 0.0}
    gpus, origin = int(row.get("gpus", 1)), str(row["source"])
    batch = float(row["batch"]) / (gpus if origin in _BATCH_OF_ALL else 1) if "batch" in row else None
    counts_items = str(row["unit"]) in _ITEMS and not _TOKENS.search(str(row["group"]))
    precision = {"single": "fp32" if origin == "gavel" else "tf32"}.get(row["precision"], row["precision"])
    if precision not in PRECISIONS:
        raise InputError(f"{where}: precision is {precision!r:.60}; it must be 'single' or one of {', '.join(PRECISIONS)}")
    return Profile(
        gpu=str(row["gpu"]),
        epoch_s=1 / float(row["rate"]),
        unit=_UNITS.get(str(row["unit"]), "cycle"),
        epochs=1,
        metrics=metrics,
        feature_set=feature_set(metrics),
        first_epoch_excluded=False,
        workload=str(row["work"]).replace(f"|{row['precision']}|{gpus}|", f"|{row['precision']}|*|"),
        group=str(row["group"]),
        precision=precision,
        batch=batch,
        origin=origin,
        gpus=gpus,
        step_s=batch * gpus / float(row["rate"]) if batch and counts_items else None,
        type=_TYPES.get(origin) or job_type_of(f"{row['group']} {row.get('workload', '')}"),
        inference=origin.endswith("_infer"),
    )
