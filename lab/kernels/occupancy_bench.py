"""Tables of ``occupancy_bench.py``, percentages in the files and ratios here; a configuration is known by its ``key``.

``kernels.csv.gz`` holds the launches of each configuration, ``ncu.csv`` what the hardware counted, launch by launch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.gpu_script_metadata import meta_beside

_KERNELS = {"key", "kernel", "grid", "block", "regs", "smem", "grid_pct"}
_PERCENT = 100.0


def devices(path: Path) -> list[dict[str, Any]]:
    """The parts of ``meta.json`` next to the file that ran on a GPU; each names it under ``device``, mostly with ``limits``."""
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
