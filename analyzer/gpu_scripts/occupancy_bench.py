"""Tables of ``occupancy_bench.py``, percentages in the files and ratios here; a configuration is known by its ``key``.

``kernels.csv.gz`` holds the launches of each configuration, ``ncu.csv`` what the hardware counted, launch by launch, and
``colocation.csv`` pairs that ran side by side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..csv_text import numeric_column, parse_csv, read_text
from ..errors import InputError
from . import meta_beside

FEWEST_PAIRS = 10

_KERNELS = {"key", "kernel", "grid", "block", "regs", "smem", "grid_pct"}
_PAIR = {
    "job": "key_{}",
    "occupancy": "mean_grid_{}",
    "slowdown": "rate_slowdown_{}",
    "nvml_utilisation": "nvml_util_alone_{}",
}
_SIDES = ("a", "b")
_PERCENT = 100.0


def devices(path: Path) -> list[dict[str, Any]]:
    """The parts of ``meta.json`` beside the file that ran on a GPU; each names it under ``device``, mostly with ``limits``."""
    parts = meta_beside(path, "parts")
    parts = parts.values() if isinstance(parts, dict) else ()
    return [part for part in parts if isinstance(part, dict) and {"device", "compute_capability"} <= part.keys()]


def has_kernels(table: pd.DataFrame) -> bool:
    """Whether it has the columns of ``kernels.csv.gz`` or of ``ncu.csv``."""
    columns = set(table.columns)
    return columns >= {*_KERNELS, "count", "mean_us"} or columns >= {
        *_KERNELS,
        "duration_us",
        "achieved_pct",
        "theoretical_pct",
    }


def kernels(table: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    """Columns of a kernel table (``kernel_table.COLUMNS``, without the GPU): launches alike, or each that ncu profiled.

    Durations are seconds, of launches alike their mean. In ``ncu.csv`` 0 registers mean that ncu did not read them.
    """
    from_ncu = "achieved_pct" in table
    registers = numeric_column(table["regs"], "regs", name)
    columns = {
        "workload": table["key"].fillna(""),
        "kernel": table["kernel"].fillna(""),
        **_dimensions(table, "grid", name),
        **_dimensions(table, "block", name),
        "registers_per_thread": registers.where(registers > 0) if from_ncu else registers,
        "shared_memory": numeric_column(table["smem"], "smem", name),
        "duration": numeric_column(table["duration_us" if from_ncu else "mean_us"], "duration", name) / 1e6,
    }
    if from_ncu:
        columns["achieved"] = numeric_column(table["achieved_pct"], "achieved_pct", name) / _PERCENT
        columns["theoretical"] = numeric_column(table["theoretical_pct"], "theoretical_pct", name) / _PERCENT
    else:
        columns["count"] = numeric_column(table["count"], "count", name)
    return columns


def _dimensions(table: pd.DataFrame, which: str, name: str) -> dict[str, pd.Series]:
    """``64x1x1`` as three columns."""
    parts = table[which].str.extract(r"^(\d+)x(\d+)x(\d+)$")
    if (bad := parts[0].isna()).any():
        seen = table[which][bad].iloc[0]
        raise InputError(f"column {which!r} of {name!r} holds {seen!r}; it is three whole numbers such as 64x1x1")
    return {f"{which}_{axis}": parts[number].astype(float) for number, axis in enumerate("xyz")}


def read_colocation(path: str | Path) -> pd.DataFrame:
    """Two rows for each pair that ran, one from either job's view.

    Columns: ``job``, ``other`` (keys), ``occupancy``, ``other_occupancy`` (``mean_grid``, 0..1), ``nvml_utilisation``,
    ``other_nvml_utilisation`` (alone, 0..1; NaN where there was no reading) and ``slowdown`` (ratio of steps per second).

    Raises:
        InputError: the file is no such table, or fewer than 10 pairs in it ran.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}; give a table of jobs measured side by side")
    table = parse_csv(read_text(path), str(path), as_text=("key_a", "key_b", "status"))
    needed = ["status", *(column.format(side) for column in _PAIR.values() for side in _SIDES)]
    if missing := [name for name in needed if name not in table]:
        raise InputError(
            f"{str(path)!r} lacks the column {missing[0]!r}; a table of jobs measured side by side has {', '.join(needed)}"
        )
    table = table[table["status"] == "ok"]
    own = [table[[column.format(side) for column in _PAIR.values()]].set_axis(list(_PAIR), axis=1) for side in _SIDES]
    views = [
        one.join(other[["job", "occupancy", "nvml_utilisation"]].add_prefix("other_"))
        for one, other in (own, tuple(reversed(own)))
    ]
    views = [
        view.rename(columns={"other_job": "other"}).assign(
            **{
                name: pd.to_numeric(view[name], errors="coerce") / scale
                for name, scale in (
                    ("slowdown", 1.0),
                    ("occupancy", _PERCENT),
                    ("other_occupancy", _PERCENT),
                    ("nvml_utilisation", _PERCENT),
                    ("other_nvml_utilisation", _PERCENT),
                )
            }
        )
        for view in views
    ]
    usable = np.logical_and.reduce([view[["slowdown", "occupancy", "other_occupancy"]].notna().all(axis=1) for view in views])
    if usable.sum() < FEWEST_PAIRS:
        raise InputError(f"{usable.sum()} pairs of {str(path)!r} ran; a curve takes {FEWEST_PAIRS}: record more")
    return pd.concat([view[usable] for view in views], ignore_index=True)
