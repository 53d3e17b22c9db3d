"""Logs of ``nvidia-smi --query-gpu=timestamp,index,… --format=csv[,nounits][,noheader] -lms 100``.

The first line names the fields with their units, ``timestamp, index, utilization.gpu [%]``; without ``nounits`` each cell
repeats its unit; a field that the GPU does not have reads ``[N/A]``. Of a log with ``noheader`` the fields are those of the
command, where its first line repeats that, else metrics named by their places. The log has no time zone: its local times are
taken as UTC, so that lengths are right and dates may be hours off.

At each tick there is a burst of rows, one for each GPU, in the driver's order. The first of `IDENTITIES` that has a value in
every row distinguishes them, and without any their places in the bursts.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv
from epochcast.analyzer.traces.logs.device_table import DeviceTable
from epochcast.analyzer.traces.timestamps import unix_seconds

MIB = 2.0**20

#: Field -> (name in the metric catalogue, factor to its base unit). ``power.draw`` is NVML's power usage, on Ampere and newer
#: the mean over a second (nvidia-smi's manual), hence not the instant power. Names with ``_`` are
#: those of its XML.
METRICS = {
    "utilization.gpu": ("gpu_utilization", 0.01),
    "gpu_util": ("gpu_utilization", 0.01),
    "utilization.memory": ("memory_utilization", 0.01),
    "memory_util": ("memory_utilization", 0.01),
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

#: Fields that distinguish GPUs, the surest first.
IDENTITIES = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "serial", "gpu_serial")

_NAMES = ("name", "gpu_name")

#: The most GPUs that are looked for in a log that does not distinguish them: as many as the largest nodes have.
MOST_GPUS = 16

_CELL = r"^\s*([-+]?\d+(?:\.\d+)?)(?:\s*([^\s\d]\S*))?\s*$"
_TIMESTAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}")
_COMMAND = re.compile(r"^[#$>\s]*nvidia-smi\b.*?--query-gpu[=\s]\s*[\"']?([\w.,]+).*$")
#: What a field without a header is known by.
_LOOKS = (
    ("timestamp", _TIMESTAMP),
    ("uuid", re.compile(r"(GPU|MIG)-[0-9a-f]+-[0-9a-f-]+")),
    ("pci.bus_id", re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")),
    ("name", re.compile(r"(NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID)\b.*")),
)

_REMEDY = (
    "log with nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -lms 100, "
    "or add that column to this log"
)


def recognises(head: str) -> bool:
    """By one of the fields of METRICS next to ``timestamp`` or no time at all, or by a first row with its form of time."""
    command, rest = _without_command(head)
    first = rest.partition("\n")[0].split(",")
    if command or any(_TIMESTAMP.fullmatch(cell.strip()) for cell in first):
        return True
    fields = {_field(column) for column in first}
    return not METRICS.keys().isdisjoint(fields) and ("timestamp" in fields or fields.isdisjoint({"time", "t"}))


def read(text: str, name: str) -> list[DeviceTable]:
    """A table of each GPU. Raises InputError for GPUs that nothing distinguishes, and a time or a cell that is none."""
    # A logger that is stopped leaves half a line, whose last number may have lost digits.
    table, notes = _table(text[: text.rfind("\n") + 1], name)
    if "timestamp" not in table:
        raise InputError(f"{name!r} has no field 'timestamp'; {_REMEDY}")
    times, zone = unix_seconds(table["timestamp"], "timestamp", name)
    frame = pd.DataFrame({"time": times})
    for field in table.columns.drop("timestamp"):
        if field in METRICS:
            column, factor = METRICS[field]
            if column not in frame:
                frame[column] = _numbers(table[field], field, name) * factor
        elif field not in (*IDENTITIES, *_NAMES):
            values = pd.to_numeric(table[field].astype(str).str.extract(_CELL)[0], errors="coerce")
            if values.notna().any():
                frame[field] = values
    which, how = _devices(table, times.to_numpy(dtype=np.float64), name)
    groups = [which == number for number in range(int(which.max()) + 1)]
    labels = [_first(table[rows], ("index",)) or str(number) for number, rows in enumerate(groups)]
    if len(set(labels)) < len(labels):  # a GPU came back under another's index
        labels = [str(number) for number in range(len(groups))]
    return [
        DeviceTable(
            frame[rows].reset_index(drop=True),
            {"gpu": _first(table[rows], _NAMES), "uuid": _first(table[rows], ("uuid", "gpu_uuid")), "source": "nvidia-smi"},
            f"GPU {label}",
            (*notes, *zone, *how),
        )
        for label, rows in zip(labels, groups, strict=True)
    ]


def _table(text: str, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The cells under the names of their fields, whether a header, a command or nothing says these."""
    command, text = _without_command(text)
    cells = [cell.strip() for cell in text.partition("\n")[0].split(",")]
    notes: tuple[str, ...] = ()
    if any(map(_TIMESTAMP.fullmatch, cells)):
        if command and len(command) != len(cells):
            raise InputError(
                f"the command in the first line of {name!r} requests {len(command)} fields, but its rows have {len(cells)}; "
                "repeat the logging command"
            )
        if not command:
            notes = (
                "the log has no header, so its metrics are named by position; for their real names put the logging command "
                "into its first line (# nvidia-smi --query-gpu=timestamp,index,…)",
            )
        text = ",".join(command or _fields_of(cells)) + "\n" + text
    table = parse_csv(text, name)
    table.columns = pd.Index([_field(column) for column in table.columns])
    table = table.loc[:, ~table.columns.duplicated()]  # a field that was requested twice
    if "timestamp" in table:  # a log that was appended to repeats its header
        table = table[table["timestamp"].astype(str).str.strip() != "timestamp"]
    if table.empty:
        raise InputError(f"{name!r} has no rows")
    return table.reset_index(drop=True), notes


def _without_command(text: str) -> tuple[list[str], str]:
    """The fields of the command that a text begins with, if it does, and the rest."""
    first, _, rest = text.partition("\n")
    command = _COMMAND.match(first)
    return (command[1].split(","), rest) if command else ([], text)


def _fields_of(cells: list[str]) -> list[str]:
    fields: list[str] = []
    for place, cell in enumerate(cells, start=1):
        known = next((field for field, looks in _LOOKS if looks.fullmatch(cell) and field not in fields), None)
        unit = re.match(_CELL, cell)
        fields.append(known or f"field {place}{f' in {unit[2]}' if unit and unit[2] else ''}")
    return fields


def _field(column: str) -> str:
    """``utilization.gpu`` of `` utilization.gpu [%]``."""
    return str(column).partition("[")[0].strip()


def _first(table: pd.DataFrame, fields: tuple[str, ...]) -> str | None:
    """The value of the first of these fields that is there."""
    for field in fields:
        if field in table and (values := _texts(table[field]).dropna()).size:
            return str(values.iloc[0])
    return None


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """The cells as text, missing where they are empty and where the GPU does not have the field."""
    cells = column.astype(str).str.strip()
    return cells.where(column.notna() & ~cells.str.startswith("[") & (cells != "N/A"))


def _numbers(column: pd.Series[Any], field: str, name: str) -> pd.Series[Any]:
    """The cells' numbers without their units; NaN for ``[N/A]``, ``N/A`` and ``[Unknown Error]``."""
    cells = _texts(column)
    values = pd.to_numeric(cells.str.extract(_CELL)[0], errors="coerce")
    if (bad := values.isna() & cells.notna()).any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{field} of {name!r} holds {cells.iloc[row][:60]!r} in data row {row + 1}; nvidia-smi writes numbers: "
            "remove the row, or leave its cell empty"
        )
    return values


def _devices(table: pd.DataFrame, times: NDArray[np.float64], name: str) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Each row's GPU, shape (n,), counted in the order of the log, and a sentence where the log does not number them itself."""
    for field in IDENTITIES:
        if field in table and (values := _texts(table[field])).notna().all():
            which, uniques = pd.factorize(values)
            numbered = field == "index" or "index" in table or len(uniques) == 1
            how = f"GPUs are distinguished by {field} and numbered in their order: {', '.join(uniques)}"
            return which, () if numbered else (how,)
    count = _gpus_per_burst(times)
    places = np.arange(len(table)) % count
    names = next((_texts(table[field]).fillna("") for field in _NAMES if field in table), None)
    if names is not None and (names != names.iloc[places].to_numpy()).any():
        raise InputError(f"{name!r} holds rows of {' and '.join(names.unique()[:4])} in changing order; {_REMEDY}")
    steps = np.diff(times)
    if count == 1 and steps.size and np.quantile(steps, 0.1) < np.quantile(steps, 0.9) / 4:
        raise InputError(f"{name!r} holds bursts of rows with nothing to tell the GPUs apart; {_REMEDY}")
    if count == 1:
        return places, ()
    return places, (
        f"the log names no index, UUID or bus: its {count} GPUs are distinguished by the order of their rows in each burst",
    )


def _gpus_per_burst(times: NDArray[np.float64]) -> int:
    """Rows from one long step of the clock to the next, if they are as many each time; else 1.

    Quantiles, as a query may hang within a burst, and a burst come late.
    """
    steps = np.diff(times)
    for count in range(2, min(MOST_GPUS, len(times) // 2) + 1):
        last = np.arange(1, len(steps) + 1) % count == 0
        if np.quantile(steps[last], 0.05) > 2 * np.quantile(steps[~last], 0.95):
            return count
    return 1
