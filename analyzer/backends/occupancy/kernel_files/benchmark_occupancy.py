"""``NAME.kernels.csv.gz`` that `epochcast benchmark occupancy` writes: a kernel table as it is, a workload per point."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ....csv_text import numeric_column
from ..launch.kernel_table import COLUMNS, kernel_table
from .kernel_file import KernelFile

NAME = "kernels of `epochcast benchmark occupancy`"

TEXTS: tuple[str, ...] = ("workload", "gpu", "kernel")


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has the columns of a kernel table."""
    return set(COLUMNS).issubset(table.columns)


def read(table: pd.DataFrame, path: Path) -> KernelFile:
    """The launches; their GPU is the driver's name."""
    texts = {name: table[name].fillna("").astype(str) for name in TEXTS}
    numbers = {name: numeric_column(table[name], name, str(path)) for name in COLUMNS if name not in TEXTS}
    return KernelFile(NAME, kernel_table(**texts, **numbers))
