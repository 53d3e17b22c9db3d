"""Logs of ``dcgmi dmon -e 1002,1005,… -d 100``.

A table with blanks between its columns; the header ``#Entity SMACT DRAMA`` and a line ``ID`` of units come again every 14 rows.
Its rows have no times (NVIDIA/DCGM issue 14), so they must be added: either to every line, in unix seconds, by ``| ts %.s``
(moreutils), or by a first line that repeats the command, whose ``-d`` (1000 ms by default) then is the interval and 0 the first
time. The latter are nominal: dmon waits that long between its queries, and takes a little time for each. Of several GPUs each
has a row per query.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.logs.device_table import DeviceTable
from epochcast.dcgm_names import MIB, SHORT_NAMES

#: DCGM's short name of a field -> (name in the metric catalogue, factor to its base unit).
METRICS = {
    **SHORT_NAMES,
    "POWINST": ("power", 1.0),
    "POWER": ("power_average", 1.0),
    "TOTEC": ("energy", 1e-3),
    "MMCLK": ("memory_clock", 1e6),
    "TMPTR": ("temperature", 1.0),
    "FBUSD": ("memory_used", MIB),
    "FBFRE": ("memory_free", MIB),
}

DEFAULT_DELAY_MS = 1000

_HEADER = re.compile(r"#\s*Entity((?:\s+\S+)+)")
_ROW = re.compile(r"^(?:(?P<time>\d+(?:\.\d+)?)\s+)?(?P<entity>[A-Za-z]\S*\s+\d+)\s+(?P<values>.*\S)\s*$")
_COMMAND = re.compile(r"dcgmi\s+dmon\b.*")
_DELAY = re.compile(r"\s(?:-d|--delay)[\s=]*(\d+)")


def recognises(head: str) -> bool:
    """By the header's ``#Entity``, stamped or not."""
    return re.search(r"^[\d.]*\s*#\s*Entity\s", head, re.MULTILINE) is not None


def read(text: str, name: str) -> list[DeviceTable]:
    """A table of each GPU (or MIG instance). Raises InputError for rows without times, and rows that do not fit the header."""
    # A logger that is stopped leaves half a line, whose last number may have lost digits.
    lines = text[: text.rfind("\n") + 1].splitlines()
    fields: list[str] = []
    rows: dict[str, list[tuple[str | None, dict[str, str]]]] = {}
    for number, line in enumerate(lines, start=1):
        if header := _HEADER.search(line):
            fields = header[1].split()
        elif fields and (row := _ROW.match(line.strip())):
            values = row["values"].split()
            if len(values) != len(fields):
                raise InputError(
                    f"line {number} of {name!r} has {len(values)} values for the {len(fields)} fields {' '.join(fields)}; log "
                    "only numeric fields"
                )
            # A field that was requested twice is there twice.
            rows.setdefault(" ".join(row["entity"].split()), []).append((row["time"], dict(zip(fields, values, strict=True))))
    if not rows:
        raise InputError(f"{name!r} has no rows")
    return [DeviceTable(_frame(of_entity, lines, name), {"source": "dcgmi dmon"}, entity) for entity, of_entity in rows.items()]


def _frame(rows: list[tuple[str | None, dict[str, str]]], lines: list[str], name: str) -> pd.DataFrame:
    values = pd.DataFrame([values for _, values in rows])
    frame = pd.DataFrame({"time": _times([time for time, _ in rows], lines, name)})
    for field in values.columns:
        column, factor = METRICS.get(field, (field, 1.0))
        # N/A, and numbers cut short to fit their column ("1234..."), are no readings.
        numbers = pd.to_numeric(values[field], errors="coerce")
        if field in METRICS or numbers.notna().any():
            frame[column] = numbers * factor
    return frame


def _times(stamps: list[str | None], lines: list[str], name: str) -> NDArray[np.float64]:
    if all(stamp is not None for stamp in stamps):
        return np.array(stamps, dtype=np.float64)
    command = next((match[0] for line in lines if (match := _COMMAND.search(line))), None)
    if command is None or any(stamp is not None for stamp in stamps):
        raise InputError(
            f"{name!r} has rows without a time, because dcgmi dmon writes none: log with `dcgmi dmon … | ts %.s`, or put the "
            "logging command into its first line (# dcgmi dmon -e 1002,1005 -d 100)"
        )
    delay = _DELAY.search(command)
    return np.arange(len(stamps)) * (int(delay[1]) if delay else DEFAULT_DELAY_MS) / 1000
