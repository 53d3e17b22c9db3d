"""``kernels.csv.gz`` and ``ncu.csv`` of the project's GPU measurements (``occupancy_bench.py``); a configuration is a workload.

Which GPU it was stands in ``meta.json`` beside the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from ....csv_text import numeric_column
from ....errors import InputError
from ..launch.gpu_limits import Figures, GpuLimits, limits_by_capability
from ..launch.kernel_table import kernel_table
from .kernel_file import KernelFile

NAME = "table of occupancy_bench.py"
TEXTS: tuple[str, ...] = ("key", "kernel", "grid", "block")
"""Columns that are read as they are written."""

_BOTH = {"key", "kernel", "grid", "block", "regs", "smem", "grid_pct"}


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has the columns of either file."""
    columns = set(table.columns)
    return columns >= {*_BOTH, "count", "mean_us"} or columns >= {*_BOTH, "duration_us", "achieved_pct"}


def read(table: pd.DataFrame, path: Path) -> KernelFile:
    """The kernels: launches alike with their mean duration, or each launch that ncu profiled.

    In ``ncu.csv`` 0 registers mean that ncu did not read them.
    """
    name = str(path)
    limits = _gpu(path)
    from_ncu = "achieved_pct" in table
    registers = numeric_column(table["regs"], "regs", name)
    columns = {
        "workload": table["key"].fillna(""),
        "gpu": next(iter(limits), ""),
        "kernel": table["kernel"].fillna(""),
        **_dimensions(table, "grid", name),
        **_dimensions(table, "block", name),
        "registers_per_thread": registers.where(registers > 0) if from_ncu else registers,
        "shared_memory": numeric_column(table["smem"], "smem", name),
        "duration": numeric_column(table["duration_us" if from_ncu else "mean_us"], "duration", name) / 1e6,
    }
    if from_ncu:
        columns["achieved"] = numeric_column(table["achieved_pct"], "achieved_pct", name) / 100
        columns["theoretical"] = numeric_column(table["theoretical_pct"], "theoretical_pct", name) / 100
    else:
        columns["count"] = numeric_column(table["count"], "count", name)
    return KernelFile(NAME, kernel_table(**columns), limits)


def _dimensions(table: pd.DataFrame, which: str, name: str) -> dict[str, pd.Series]:
    """``64x1x1`` as three columns."""
    parts = table[which].str.extract(r"^(\d+)x(\d+)x(\d+)$")
    if (bad := parts[0].isna()).any():
        seen = table[which][bad].iloc[0]
        raise InputError(f"column {which!r} of {name!r} holds {seen!r}; it is three whole numbers such as 64x1x1")
    return {f"{which}_{axis}": parts[number].astype(float) for number, axis in enumerate("xyz")}


def _gpu(path: Path) -> dict[str, GpuLimits]:
    """The GPU by ``meta.json``; empty if there is none, or it tells no GPU."""
    try:
        meta = json.loads((path.parent / "meta.json").read_text("utf-8"))
        parts = meta["parts"].values()
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}
    for part in parts:
        try:
            theirs, name = part["limits"], str(part["device"])
            known = Figures(
                max_warps=theirs["warps"],
                max_blocks=theirs["blocks"],
                registers=theirs["registers"],
                shared_memory=theirs["shared_memory"],
            )
            return {name: limits_by_capability(name, float(part["compute_capability"]), theirs["sms"], known)}
        except (KeyError, TypeError, ValueError):  # a part that did not start, or ran on a CPU
            continue
    return {}
