"""Logs of ``nvidia-smi --query-gpu=timestamp,… --format=csv[,nounits] -lms 100``.

The first line names the fields with their units, ``timestamp, utilization.gpu [%], power.draw [W]``; without ``nounits`` each
cell repeats its unit; a field that the GPU does not have reads ``[N/A]``. The log has no time zone: its local times are taken
as UTC, so that lengths are right and dates may be hours off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..csv_text import parse_csv
from ..errors import InputError

MIB = 2.0**20

#: Field -> (name in the metric catalogue, factor to its base unit). ``power.draw`` is NVML's power usage, on Ampere and newer
#: the mean over a second (nvidia-smi's manual), hence not the instant power.
METRICS = {
    "utilization.gpu": ("gpu_utilization", 0.01),
    "utilization.memory": ("memory_utilization", 0.01),
    "memory.used": ("memory_used", MIB),
    "memory.free": ("memory_free", MIB),
    "power.draw.instant": ("power", 1.0),
    "power.draw.average": ("power_average", 1.0),
    "power.draw": ("power_average", 1.0),
    "clocks.current.sm": ("sm_clock", 1e6),
    "clocks.sm": ("sm_clock", 1e6),
    "clocks.current.memory": ("memory_clock", 1e6),
    "clocks.mem": ("memory_clock", 1e6),
    "temperature.gpu": ("temperature", 1.0),
}

#: Fields that tell GPUs apart.
IDENTITIES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial", "name", "gpu_name")

_CELL = r"^\s*([-+]?\d+(?:\.\d+)?)(?:\s*[^\s\d]\S*)?\s*$"


def recognises(head: str) -> bool:
    """By a column ``timestamp`` beside one of the fields of METRICS."""
    fields = {_field(column) for column in head.partition("\n")[0].split(",")}
    return "timestamp" in fields and not METRICS.keys().isdisjoint(fields)


def read(text: str, name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Frame and metadata. Raises InputError for several GPUs, a time or a cell that is none, and what `parse_csv` refuses."""
    # A logger that is stopped leaves half a line, whose last number may have lost digits.
    table = parse_csv(text[: text.rfind("\n") + 1], name)
    table.columns = pd.Index([_field(column) for column in table.columns])
    table = table.loc[:, ~table.columns.duplicated()]  # a field that was asked for twice
    identity = {field: _single(table[field], field, name) for field in IDENTITIES if field in table}
    frame = pd.DataFrame({"time": _unix_seconds(table["timestamp"], name)})
    for field in table.columns.drop("timestamp"):
        if field in METRICS:
            column, factor = METRICS[field]
            if column not in frame:
                frame[column] = _numbers(table[field], field, name) * factor
        elif field not in IDENTITIES:
            values = pd.to_numeric(table[field].astype(str).str.extract(_CELL, expand=False), errors="coerce")
            if values.notna().any():
                frame[field] = values
    return frame, {
        "gpu": identity.get("name", identity.get("gpu_name")),
        "uuid": identity.get("uuid", identity.get("gpu_uuid")),
        "source": "nvidia-smi",
    }


def _field(column: str) -> str:
    """``utilization.gpu`` of `` utilization.gpu [%]``."""
    return column.partition("[")[0].strip()


def _single(column: pd.Series[Any], field: str, name: str) -> str | None:
    values = column.dropna().astype(str).str.strip().unique()
    if len(values) > 1:
        raise InputError(
            f"{name!r} holds {len(values)} GPUs (its {field} is {values[0]!r}, then {values[1]!r}): "
            "log one with nvidia-smi -i, or keep the lines of one"
        )
    return str(values[0]) if len(values) else None


def _unix_seconds(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    times = pd.to_datetime(column, format="%Y/%m/%d %H:%M:%S.%f", errors="coerce", utc=True)
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise InputError(
            f"{name!r} has the timestamp {str(column.iloc[row])[:60]!r} in data row {row + 1}; "
            "nvidia-smi writes 2026/01/31 23:59:59.999"
        )
    return (times - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def _numbers(column: pd.Series[Any], field: str, name: str) -> pd.Series[Any]:
    """The cells' numbers without their units; NaN for ``[N/A]``, ``N/A`` and ``[Unknown Error]``."""
    cells = column.astype(str).str.strip()
    values = pd.to_numeric(cells.str.extract(_CELL, expand=False), errors="coerce")
    missing = column.isna() | cells.str.startswith("[") | (cells == "N/A")
    if (bad := values.isna() & ~missing).any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"{field} of {name!r} holds {cells.iloc[row][:60]!r} in data row {row + 1}; nvidia-smi writes numbers")
    return values
