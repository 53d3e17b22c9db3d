"""CSV tables of kernels: those of public profiler traces, and of ``occupancy_bench.py``. All cells are read as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import CONFIGURATION, GpuLimits, limits_by_capability
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.gpu_script_metadata import meta_beside
from lab.kernels.files.kernel_file import KernelFile
from lab.kernels.kernel_table import kernel_table

_KERNELS = {"key", "kernel", "grid", "block", "regs", "smem", "grid_pct"}
_PERCENT = 100.0
_SIZES = CONFIGURATION[:6]
_KINETO_NUMBERS = ("sms", *_SIZES, "regs_per_thread", "shared_mem", "dur_us", "est_achieved_occupancy_pct")
KINETO_COLUMNS = {"trace", "device", "cc", "kernel", *_KINETO_NUMBERS}


def read_kineto(table: pd.DataFrame, path: Path) -> KernelFile:
    """``kineto_kernels.csv.gz``: kernels of public profiler traces (TraceLens, HolisticTraceAnalysis); a trace is a workload.

    The GPUs are as the traces describe them: name, compute capability and SMs; where a trace has none, ``device`` is empty.
    """
    numbers = {name: numeric_column(table[name], name, str(path)) for name in _KINETO_NUMBERS}
    gpus = table[table["device"].notna()].drop_duplicates("device")
    figures = pd.DataFrame({"cc": numeric_column(gpus["cc"], "cc", str(path)), "sms": numbers["sms"][gpus.index]}).dropna()
    limits = {
        name: limits_by_capability(name, capability, int(sms))
        for name, capability, sms in zip(gpus["device"][figures.index], figures["cc"], figures["sms"], strict=True)
    }
    launches = kernel_table(
        workload=table["trace"].fillna(""),
        gpu=table["device"].fillna(""),
        kernel=table["kernel"].fillna(""),
        **{name: numbers[name] for name in _SIZES},
        registers_per_thread=numbers["regs_per_thread"],
        shared_memory=numbers["shared_mem"],
        duration=numbers["dur_us"] / 1e6,
        estimate=numbers["est_achieved_occupancy_pct"] / 100,
    )
    return KernelFile("table of Kineto kernels", launches, limits)


def read_bench(table: pd.DataFrame, path: Path) -> KernelFile:
    """``kernels.csv.gz`` and ``ncu.csv`` of ``occupancy_bench.py``: launches alike with their mean duration, or each launch
    that ncu profiled; a configuration is a workload. ``meta.json`` next to the file names the GPU."""
    limits = _bench_limits(path)
    return KernelFile(
        "table of occupancy_bench.py", kernel_table(gpu=next(iter(limits), ""), **kernels(table, str(path))), limits
    )


_BENCH_LIMITS = {"max_warps": "warps", "max_blocks": "blocks", "registers": "registers", "shared_memory": "shared_memory"}


def _bench_limits(path: Path) -> dict[str, GpuLimits]:
    """Of the first GPU whose limits ``meta.json`` has; empty if there is none."""
    for part in devices(path):
        try:
            name, held = str(part["device"]), part["limits"]
            figures = {field: held[figure] for field, figure in _BENCH_LIMITS.items()}
            return {name: limits_by_capability(name, float(part["compute_capability"]), held["sms"], **figures)}
        except (KeyError, TypeError, ValueError):  # a part that did not start
            continue
    return {}


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
