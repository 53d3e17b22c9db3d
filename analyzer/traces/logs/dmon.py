"""Logs of ``nvidia-smi dmon -o DT`` (or ``-o T``) and of ``dcgmi dmon -e 1002,1005,… -d 100``.

Tables with blanks (or commas) between their columns, whose header and line of units come again. In nvidia-smi's ``-o`` adds the
time. dcgmi's rows have none (NVIDIA/DCGM issue 14), so it must be added: either to every line, in unix seconds, by ``| ts %.s``
(moreutils), or by a first line that repeats the command, whose ``-d`` (1000 ms by default) then is the interval and 0 the first
time. The latter are nominal: dmon waits that long between its queries, and takes a little time for each.
"""

from __future__ import annotations

import re

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import DMON
from epochcast.analyzer.traces.csv_text import FEW
from epochcast.analyzer.traces.gpu_trace import Trace
from epochcast.analyzer.traces.table import gpu_traces
from epochcast.analyzer.words import count

DEFAULT_DELAY_MS = 1000

_DAY_S = 86400.0
_HEADER = re.compile(r"^(?:[\d.]+\s+)?#\s*(Entity|(?:Date\W+)?Time\W+gpu|gpu)\b(.*)$", re.MULTILINE)
_COMMAND = re.compile(r"dcgmi\s+dmon\b.*")
_DELAY = re.compile(r"\s(?:-d|--delay)[\s=]*(\d+)")


def recognises(head: str) -> bool:
    """By the header's ``#Entity`` or ``# gpu``, stamped or not."""
    return _HEADER.search(head) is not None


def read(text: str, name: str) -> list[Trace]:
    """The trace of each GPU or MIG instance. Raises InputError for rows without times, and rows that do not fit the header."""
    # A logger that is stopped leaves half a line, whose last number may have lost digits.
    whole = text[: text.rfind("\n") + 1]
    notes = [] if whole == text else ["left out: the last line, which is cut off"]
    fields: list[str] = []
    rows, wrong = [], []
    for number, line in enumerate(whole.split("\n"), start=1):
        if _HEADER.match(line):
            fields = re.findall(r"[^\s,#]+", line[line.index("#") :])
        elif fields and line.strip() and "#" not in line and not re.match(r"(?:[\d.]+\s+)?ID\b", line.strip()):
            cells = re.split(r"\s*,\s*|\s+", re.sub(r"\b(GPU[\w-]*|CPU)\s+(\d+)", r"\1_\2", line.strip()).strip(","))
            stamped = fields[0] == "Entity" and not cells[0].startswith(("GPU", "CPU"))
            if stamped and not re.fullmatch(r"\d+(\.\d+)?", cells[0]):
                continue  # what the command said before its rows
            if len(cells) - stamped == len(fields) and "\0" not in line:
                rows.append(dict(zip(["time"] * stamped + fields, cells, strict=True)))
            else:
                wrong.append(number)
    if (wrong and len(wrong) > max(1, FEW * len(rows))) or (wrong and not rows):
        raise InputError(
            f"line {wrong[0]} of {name!r} does not have a value for each of the fields {' '.join(fields)[:200]}; log only "
            "numeric fields"
        )
    if not rows:
        raise InputError(f"{name!r} has no rows")
    notes += [f"left out: {count(len(wrong), 'line')}, cut or merged"] if wrong else []
    table = pd.DataFrame(rows)
    if "Entity" in table:
        return _of_dcgmi(table, whole, name, notes)
    if "Time" not in table or "pid" in table:
        tool = "nvidia-smi pmon, which lists processes" if "pid" in table else "nvidia-smi dmon without times"
        raise InputError(f"{name!r} is a log of {tool}; log with nvidia-smi dmon -o DT -s pucm, which has the time in each row")
    if "Date" in table:
        table.insert(0, "timestamp", table["Date"] + " " + table["Time"])
    else:
        seconds = pd.to_timedelta(table["Time"], errors="coerce").dt.total_seconds()
        seconds += _DAY_S * (seconds.diff() < -_DAY_S / 2).cumsum()
        table.insert(0, "timestamp", pd.Timestamp("1970-01-01") + pd.to_timedelta(seconds, unit="s"))
        notes.append("the log has times of day without a date, which are counted from the first day of 1970")
    return gpu_traces(_numeric(table, ("Date", "Time")).rename(columns=DMON), name, {"source": "nvidia-smi"}, notes)


def _of_dcgmi(table: pd.DataFrame, text: str, name: str, notes: list[str]) -> list[Trace]:
    entity = table["Entity"].str.replace("_", " ")
    command = next(iter(_COMMAND.findall(text)), None)
    if "time" not in table or table["time"].isna().any():
        if command is None or "time" in table:
            raise InputError(
                f"{name!r} has rows without a time, because dcgmi dmon writes none: log with `dcgmi dmon … | ts %.s`, or put "
                "the logging command into its first line (# dcgmi dmon -e 1002,1005 -d 100)"
            )
        delay = _DELAY.search(command)
        table["time"] = table.groupby("Entity").cumcount() * (int(delay[1]) if delay else DEFAULT_DELAY_MS) / 1000
    return gpu_traces(_numeric(table, ("Entity",)).assign(index=entity), name, {"source": "dcgmi dmon"}, notes)


def _numeric(table: pd.DataFrame, left_out: tuple[str, ...]) -> pd.DataFrame:
    """The table with numbers: ``N/A``, ``-`` and what was cut short to fit its column (``1234...``) are no readings."""
    kept = [title for title in table.columns if title not in left_out]
    numbers = {title: pd.to_numeric(table[title], errors="coerce") for title in kept if title != "timestamp"}
    return table[kept].assign(**numbers)
