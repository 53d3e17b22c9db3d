"""``kineto_kernels.csv.gz``: kernels of public profiler traces (TraceLens, HolisticTraceAnalysis), with Kineto's own estimate.

A trace is a workload. Rows whose GPU the trace does not tell (compute capability ``None.None``) have an empty ``gpu``.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ....csv_text import numeric_column
from ..launch.gpu_limits import limits_by_capability
from ..launch.kernel_table import kernel_table
from .kernel_file import KernelFile

NAME = "table of Kineto kernels"
TEXTS: tuple[str, ...] = ("trace", "device", "cc", "kernel")
"""Columns that are read as they are written."""

_NUMBERS = {
    "grid_x": "grid_x",
    "grid_y": "grid_y",
    "grid_z": "grid_z",
    "block_x": "block_x",
    "block_y": "block_y",
    "block_z": "block_z",
    "registers_per_thread": "regs_per_thread",
    "shared_memory": "shared_mem",
}


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has their columns."""
    wanted = {"trace", "device", "cc", "sms", "kernel", "dur_us", "est_achieved_occupancy_pct", *_NUMBERS.values()}
    return wanted <= set(table.columns)


def read(table: pd.DataFrame, path: Path) -> KernelFile:
    """The kernels; the GPUs are as the traces tell: name, compute capability and SMs."""
    name = str(path)
    gpus = table[table["device"].notna()].drop_duplicates("device")
    told = pd.DataFrame({figure: numeric_column(gpus[figure], figure, name) for figure in ("cc", "sms")}).dropna()
    limits = {
        device: limits_by_capability(device, capability, int(sms))
        for device, capability, sms in zip(gpus["device"][told.index], told["cc"], told["sms"], strict=True)
    }
    columns = {ours: numeric_column(table[theirs], theirs, name) for ours, theirs in _NUMBERS.items()}
    kernels = kernel_table(
        workload=table["trace"].fillna(""),
        gpu=table["device"].fillna(""),
        kernel=table["kernel"].fillna(""),
        **columns,
        duration=numeric_column(table["dur_us"], "dur_us", name) / 1e6,
        estimate=numeric_column(table["est_achieved_occupancy_pct"], "est_achieved_occupancy_pct", name) / 100,
    )
    return KernelFile(NAME, kernels, limits)
