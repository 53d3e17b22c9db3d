"""``kernels.csv.gz`` and ``ncu.csv`` of ``occupancy_bench.py``; a configuration is a workload.

Which GPU it was stands in ``meta.json`` beside the file.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ....gpu_scripts.occupancy_bench import KERNEL_TEXTS, devices, kernels
from ....gpu_scripts.occupancy_bench import has_kernels as recognises
from ..launch.gpu_limits import Figures, GpuLimits, limits_by_capability
from ..launch.kernel_table import kernel_table
from .kernel_file import KernelFile

__all__ = ["NAME", "TEXTS", "read", "recognises"]

NAME = "table of occupancy_bench.py"
TEXTS = KERNEL_TEXTS


def read(table: pd.DataFrame, path: Path) -> KernelFile:
    """The kernels: launches alike with their mean duration, or each launch that ncu profiled."""
    limits = _limits(path)
    return KernelFile(NAME, kernel_table(gpu=next(iter(limits), ""), **kernels(table, str(path))), limits)


def _limits(path: Path) -> dict[str, GpuLimits]:
    """Of the first GPU whose limits ``meta.json`` has; empty if there is none."""
    for part in devices(path):
        try:
            theirs, name = part["limits"], str(part["device"])
            known = Figures(
                max_warps=theirs["warps"],
                max_blocks=theirs["blocks"],
                registers=theirs["registers"],
                shared_memory=theirs["shared_memory"],
            )
            return {name: limits_by_capability(name, float(part["compute_capability"]), theirs["sms"], known)}
        except (KeyError, TypeError, ValueError):  # a part that did not start
            continue
    return {}
