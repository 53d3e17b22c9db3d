"""What jobs are drawn from: networks with their sizes, each with its occupancy, NVML utilisation and memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ....csv_text import parse_csv, read_text
from ....errors import InputError
from .table_file import Column, read_table

_MEASURED = ("mean_grid", "nvml_util", "peak_mib", "status")
"""Columns by which a table of ``occupancy_bench.py`` is known."""


@dataclass(frozen=True)
class Configuration:
    """One network with its input sizes on one GPU.

    Attributes:
        key: its name in the table.
        model: the network.
        occupancy: mean over kernel launches of each one's occupancy of the GPU, 0..1 (the paper's label, section III-A).
        nvml_utilisation: share of the time in which a kernel runs, 0..1.
        memory: bytes.
    """

    key: str
    model: str
    occupancy: float
    nvml_utilisation: float
    memory: float


_MODELLED = (
    Column("occupancy", least=0.0, most=1.0),
    Column("nvml_utilisation", least=0.0, most=1.0),
    Column("memory_bytes", least=0.0),
)

_PERCENT = 100.0
_MIB = 2.0**20


def configurations(path: str | Path) -> list[Configuration]:
    """Configurations of either table; the columns tell which one it is.

    *Measured*: ``occupancy.csv`` of the H200 recordings (``occupancy_bench.py``); occupancy is its ``mean_grid``, rows that
    failed or have no NVML reading are left out. *Modelled*: columns ``key, model, occupancy, nvml_utilisation`` (0..1) and
    ``memory_bytes``.

    Raises:
        InputError: the file is neither, holds no usable row, or a value cannot be.
    """
    measured = set(_MEASURED) <= set(read_table(path, (), names=()).columns)
    table = _measured(path) if measured else read_table(path, _MODELLED, names=("key", "model"))
    rows = table[["key", "model", "occupancy", "nvml_utilisation", "memory_bytes"]]
    return [Configuration(*row) for row in rows.itertuples(index=False, name=None)]


def _measured(path: str | Path) -> pd.DataFrame:
    """Rows of ``occupancy_bench.py`` that succeeded, in the columns and units of a modelled table."""
    table = parse_csv(read_text(path), str(path), as_text=("key", "model"))
    table = table.loc[table["status"] == "ok"]
    figures = table[["mean_grid", "nvml_util", "peak_mib"]].apply(pd.to_numeric, errors="coerce")
    table = table.loc[figures.notna().all(axis=1)].reset_index(drop=True)
    if table.empty:
        raise InputError(f"{str(path)!r} has no row with status ok, mean_grid, nvml_util and peak_mib; record again")
    figures = table[["mean_grid", "nvml_util", "peak_mib"]].astype(float)
    if (bad := (figures < 0).any(axis=1) | (figures[["mean_grid", "nvml_util"]] > _PERCENT).any(axis=1)).any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{str(path)!r} holds {figures.iloc[row].to_dict()} for {table['key'].iloc[row]}; percentages are 0 to 100"
        )
    modelled: pd.DataFrame = table.assign(
        occupancy=figures["mean_grid"] / _PERCENT,
        nvml_utilisation=figures["nvml_util"] / _PERCENT,
        memory_bytes=figures["peak_mib"] * _MIB,
    )
    return modelled
