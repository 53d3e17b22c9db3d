"""Tables of ``occupancy_bench.py``, percentages in the files and ratios here; a configuration is known by its ``key``.

``occupancy.csv`` and ``sweep.csv`` hold a row per configuration with its occupancies, ``kernels.csv.gz`` the launches of each,
``ncu.csv`` what the hardware counted, launch by launch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from ..csv_text import numeric_column
from ..errors import InputError
from . import meta_beside

CONFIGURATIONS = "occupancy.csv"
KERNELS = "kernels.csv.gz"

KERNEL_TEXTS: tuple[str, ...] = ("key", "kernel", "grid", "block")
"""Columns of kernels that are read as they are written."""

_KERNELS = {*KERNEL_TEXTS, "regs", "smem", "grid_pct"}
_LABELS = {"mean": "mean_grid", "time_mean": "timemean_grid", "max": "max_grid"}
_NAMES = {"model": "network", "image": "image_size", "seq": "sequence"}
_REASONS = {"oom": "out of memory", "error": "the network failed", "ok": "no kernel was recorded"}
_MEBIBYTE = 2**20
_PERCENT = 100.0


def devices(path: Path) -> list[dict[str, Any]]:
    """The parts of ``meta.json`` beside the file that ran on a GPU; each names it under ``device``, mostly with ``limits``."""
    parts = meta_beside(path, "parts")
    parts = parts.values() if isinstance(parts, dict) else ()
    return [part for part in parts if isinstance(part, dict) and {"device", "compute_capability"} <= part.keys()]


def device_name(path: Path) -> str:
    """The driver's name of the GPU; InputError if ``meta.json`` beside the file names none or several."""
    names = {str(part["device"]) for part in devices(path)}
    if len(names) != 1:
        found = f"names several GPUs ({', '.join(sorted(names))})" if names else "is missing or names no GPU"
        raise InputError(f"meta.json beside {str(path)!r} {found}; name the GPU by --gpu")
    return names.pop()


def has_configurations(table: pd.DataFrame) -> bool:
    """Whether it has the columns of ``occupancy.csv`` and ``sweep.csv``."""
    return {"key", *_NAMES, "status", "kernels", *_LABELS.values(), "iter_ms", "nvml_util", "peak_mib"} <= set(table.columns)


def measured_configurations(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, Counter[str]]:
    """The rows that were measured, and how many others there are by the reason, such as out of memory.

    Columns besides the file's own: ``network``, ``image_size``, ``sequence``; ``mean``, ``time_mean`` and ``max``, occupancies
    of ``grid``, the mean over all SMs; ``step_s``, ``nvml_utilisation`` (0..1) and ``memory_bytes``, which includes the weights
    of other networks that the same process kept on the device.

    Raises:
        InputError: nothing was measured in the file of this name.
    """
    measured = table["status"].eq("ok") & pd.to_numeric(table["kernels"], errors="coerce").gt(0)
    left_out = Counter(_REASONS.get(str(status), f"status {status!r}") for status in table["status"][~measured])
    if not measured.any():
        most = ", ".join(reason for reason, _ in left_out.most_common(1)) or "there is no row"
        raise InputError(f"{name!r} holds no measured kernels ({most}); measure on a GPU")
    kept = table[measured]
    rows = kept.rename(columns=_NAMES).assign(
        step_s=numeric_column(kept["iter_ms"], "iter_ms", name) / 1e3,
        nvml_utilisation=numeric_column(kept["nvml_util"], "nvml_util", name) / _PERCENT,
        memory_bytes=numeric_column(kept["peak_mib"], "peak_mib", name) * _MEBIBYTE,
        **{target: numeric_column(kept[column], column, name) / _PERCENT for target, column in _LABELS.items()},
    )
    return rows, left_out


def has_kernels(table: pd.DataFrame) -> bool:
    """Whether it has the columns of ``kernels.csv.gz`` or of ``ncu.csv``."""
    columns = set(table.columns)
    return columns >= {*_KERNELS, "count", "mean_us"} or columns >= {*_KERNELS, "duration_us", "achieved_pct"}


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
