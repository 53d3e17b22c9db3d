"""A table of telemetry, from any tool or program, put into our names and units: one trace for each GPU in it.

GPUs of one table are distinguished by the first of `IDENTITIES` that has a value in every row, and without any by their places
in the bursts of rows that a logger writes at each tick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import RATIOS, meaning_of
from epochcast.analyzer.traces.csv_text import FEW, numeric_column
from epochcast.analyzer.traces.gpu_trace import Trace, make_trace
from epochcast.analyzer.traces.timestamps import in_order, time_column, unix_seconds
from epochcast.analyzer.words import count

#: Columns that distinguish GPUs, the surest first; and their names.
IDENTITIES = ("uuid", "UUID", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "gpu_id", "gpu_index", "serial", "gpu_serial")
_NUMBERS = ("index", "gpu_id", "gpu_index")
_NAMES = ("name", "gpu_name", "modelName", "gpu_model")

#: The most GPUs that are looked for in a log that does not distinguish them: as many as the largest nodes have.
MOST_GPUS = 16

_CELL = r"^\s*([-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?)\s*([^\s\d]\S*)?\s*$"
_NOTHING = ("", "N/A", "n/a", "-", "ERR!", "null", "None", "Unknown Error")
_WIDE = re.compile(r"(?:.*/)?[\w:]* ?\(gpu:(\d+)\)/(.+)")  # nvitop: daemon/cuda:0 (gpu:0)/gpu_utilization (%)/mean
_PER_RUN = {"emissions", "gpu_power", "duration"}  # codecarbon

REMEDY = (
    "log with nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -lms 100, "
    "or add that column to this log"
)

Array = NDArray[np.float64]


def gpu_traces(
    table: pd.DataFrame, name: str, metadata: Mapping[str, Any] | None = None, notes: Sequence[str] = ()
) -> list[Trace]:
    """The trace of each GPU in a table whose columns and cells are as a tool, or somebody's program, wrote them.

    Raises InputError, calling it ``name``, for times and cells that are none, and for GPUs that nothing distinguishes.
    """
    table = _without_index(table, name)
    title = time_column(table, name)
    times, local, said = unix_seconds(table[title], title, name)
    raw, table = table.reset_index(drop=True), table.drop(columns=title).reset_index(drop=True)
    notes = [*notes, *said]
    if "time" in table:
        raise InputError(f"{name!r} has the columns {title!r} and 'time'; keep one of them")
    known = times.notna()
    if 0 < (lost := int((~known).sum())) <= FEW * len(times):
        notes.append(f"left out: {count(lost, 'row')} without a valid time")
        times, table, raw = times[known], table[known].reset_index(drop=True), raw[known]
    time = times.to_numpy(dtype=np.float64)
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise InputError(f"{name!r} has no valid time in data row {row + 1}; give every row a time in unix seconds")
    time, order, said = in_order(time, local=local, twice=lambda: raw.duplicated().to_numpy())
    notes += said
    if said:
        time, table = time[order], table.iloc[order].reset_index(drop=True)
    if wide := [match for column in table.columns if (match := _WIDE.fullmatch(column))]:
        return _of_wide(table, time, wide, name, notes)
    foreign = any(base.startswith("field ") or column not in (None, base) for base, column, _ in map(meaning_of, table.columns))
    which, how = _gpus(table, time, name, in_bursts=foreign)
    frame, said = _metrics(table, name)
    frame.insert(0, "time", time)
    notes += [*how, *said]
    gpus = [which == number for number in range(int(which.max(initial=-1)) + 1)]
    several = len(gpus) > 1
    labels = [_first(table[rows], _NUMBERS) or (str(number) if several else None) for number, rows in enumerate(gpus)]
    if len(set(labels)) < len(labels):  # a GPU came back under another's index
        labels = [str(number) for number in range(len(gpus))]
    traces = []
    for label, rows in zip(labels, gpus, strict=True):
        said_here = {
            "source": "nvidia-smi" if foreign else None,
            "gpu": _first(table[rows], _NAMES, r"^\d+ x "),
            "uuid": _first(table[rows], ("uuid", "UUID", "gpu_uuid")),
        } | {key: value for key, value in (metadata or {}).items() if value is not None}
        named = label if label is None or label.startswith("GPU") else f"GPU {label}"
        place = f"{name}, {named}" if several else name
        traces.append(make_trace(frame[rows].reset_index(drop=True), said_here, place, named, notes))
    return traces


def _without_index(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table with its index as a column if that has times, without one that only counts rows, and with plain titles."""
    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis("time").reset_index()
    elif table.index.name is not None:
        table = table.reset_index()
    table = table.set_axis([str(column).strip() for column in table.columns], axis=1)
    first = table.columns[0] if len(table.columns) else ""
    if (first == "index" or first.startswith("Unnamed: ")) and len(table) > MOST_GPUS and _counts(table[first]):
        table = table.drop(columns=first)
    if len(table) == 0:
        raise InputError(f"{name!r} has no rows")
    if set(table.columns) >= _PER_RUN:
        if len(table) < 10:
            raise InputError(f"{name!r} is codecarbon's, whose row per run shows no epochs; {REMEDY.partition(', or')[0]}")
        kept = [column for column in ("timestamp", "gpu_power", "gpu_model") if column in table]
        table = table[kept]
    if any(column.startswith("DCGM_FI_") for column in table.columns) and "gpu" in table and "index" not in table:
        table = table.rename(columns={"gpu": "index"})
    return table


def _counts(column: pd.Series[Any]) -> bool:
    return bool(pd.to_numeric(column, errors="coerce").diff().iloc[1:].eq(1).all())


def _metrics(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The columns that have numbers, in base units, and a note on what was left out or taken for percent."""
    found: dict[str, pd.Series[Any]] = {}
    percent = []
    for place, title in enumerate(table.columns):
        if title in (*IDENTITIES, *_NAMES):
            continue
        base, known, factor = meaning_of(title)
        column = known or base
        if column in found:
            if known or base != title:  # a field that was requested twice
                continue
            raise InputError(f"{name!r} has more than one column {title!r}; give every metric its own name")
        values, unit = _numbers(table.iloc[:, place], title, name, known=known is not None)
        if values is None:
            continue
        if known is not None:
            values = values * (meaning_of(f"{base} [{unit}]")[2] if unit else factor)
            if column in RATIOS and factor == 1.0 and not unit and values.max() > 1.5:
                percent.append(column)
                values = values / 100
        found[column] = values
    notes = [f"{', '.join(percent)} {'is' if len(percent) == 1 else 'are'} taken as percent"] if percent else []
    return pd.DataFrame(found, index=table.index), notes


def _numbers(column: pd.Series[Any], title: str, name: str, *, known: bool) -> tuple[pd.Series[Any] | None, str | None]:
    """The cells' numbers, NaN where there is no reading, with their unit; None for a column without any, unless it is known."""
    if pd.api.types.infer_dtype(column, skipna=True) not in ("string", "mixed-integer"):
        return numeric_column(column, title, name), None
    cells = _texts(column)
    parts = cells.str.extract(_CELL)
    values = pd.to_numeric(parts[0].str.replace(",", "."), errors="coerce")
    if values.isna().all() and not known:
        return None, None
    if (values.isna() & cells.notna()).any():
        numeric_column(cells.where(values.isna(), values), title, name)  # raises, naming the first such row
    units = parts[1].dropna().unique()
    return numeric_column(values, title, name), str(units[0]) if len(units) == 1 else None


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """The cells as text, missing where they are empty and where the GPU does not have the field."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # a number of a GPU, beside an empty cell
    cells = column.astype(str).str.strip()
    return cells.where(column.notna() & ~cells.str.startswith("[") & ~cells.isin(_NOTHING))


def _first(table: pd.DataFrame, fields: tuple[str, ...], left_out: str = "^$") -> str | None:
    """The value of the first of these fields that is there, without what matches ``left_out``."""
    for title in fields:
        if title in table and (values := _texts(table[title]).dropna()).size:
            return re.sub(left_out, "", str(values.iloc[0]))
    return None


def _of_wide(table: pd.DataFrame, time: Array, matches: Sequence[re.Match[str]], name: str, notes: list[str]) -> list[Trace]:
    """The GPUs of a table with columns for each of them, of whose statistics the last reading is best, then the mean."""
    traces = []
    for gpu in dict.fromkeys(match[1] for match in matches):
        chosen: dict[str, str] = {}
        for statistic in ("/last", "/mean", ""):
            for match in matches:
                if match[1] == gpu and match[2].endswith(statistic) and match[2].count("/") == bool(statistic):
                    chosen.setdefault(match[2].removesuffix(statistic), match[0])
        frame, said = _metrics(table[list(chosen.values())].set_axis(list(chosen), axis=1), name)
        frame.insert(0, "time", time)
        traces.append(make_trace(frame, {"source": "nvitop"}, name, f"GPU {gpu}", (*notes, *said)))
    return traces


def _gpus(table: pd.DataFrame, time: Array, name: str, *, in_bursts: bool) -> tuple[NDArray[np.intp], list[str]]:
    """Each row's GPU, shape (n,), counted in the order of the log, -1 for none; a note where the log does not number them."""
    for title in IDENTITIES:
        if title in table and (values := _texts(table[title])).notna().all():
            which, uniques = pd.factorize(values)
            numbered = title in _NUMBERS or any(number in table for number in _NUMBERS) or len(uniques) == 1
            how = f"GPUs are distinguished by {title} and numbered in their order: {', '.join(uniques)}"
            return which, [] if numbered else [how]
    if not in_bursts:
        return np.zeros(len(table), dtype=np.intp), []
    size, places, dropped = _bursts(time)
    if size > 1 and not (time % 1).any():  # rows of one second may be of one GPU as well
        size = 0
    names = next((_texts(table[title]).fillna("") for title in _NAMES if title in table), None)
    if names is not None:
        of_place = [set(names[places == place]) for place in range(size)]
        if any(len(each) > 1 for each in of_place):
            raise InputError(f"{name!r} holds rows of {' and '.join(names.unique()[:4])} in changing order; {REMEDY}")
    if size == 0:
        raise InputError(f"{name!r} holds bursts of rows with nothing to tell the GPUs apart; {REMEDY}")
    notes = []
    if dropped:
        notes.append(f"left out: {count(dropped, 'burst')} without a row of each GPU")
    if size > 1:
        notes.append(
            f"the log names no index, UUID or bus: its {size} GPUs are distinguished by the order of their rows in each burst"
        )
    return places, notes


def _bursts(time: Array) -> tuple[int, NDArray[np.intp], int]:
    """How many rows a burst has (0: that changes too often), each row's place in its burst (-1: in none), bursts left out.

    A burst ends where the step of the clock is long: one of n has n - 1 short steps.
    """
    steps = np.diff(time)
    for most in range(2, MOST_GPUS + 1) if steps.size >= 3 else ():
        short, long = np.quantile(steps, (1 - 1.2 / most, 1 - 0.8 / most))
        if long <= 2 * short:
            continue
        starts = np.flatnonzero(np.concatenate([[True], steps > max(short, long / 50) ** 0.5 * long**0.5]))
        sizes = np.diff(np.append(starts, time.size))
        size = int(np.bincount(sizes).argmax())
        places, dropped = np.full(time.size, -1, dtype=np.intp), 0
        for whole, run in groupby(range(len(sizes)), key=lambda burst: sizes[burst] == size):
            bursts = list(run)
            first, rows = starts[bursts[0]], sizes[bursts].sum()
            # A query may hang within a burst, and one come right after another: their parts still make a whole.
            if whole or rows % size == 0:
                places[first : first + rows] = np.arange(rows) % size
            else:
                dropped += len(bursts)
        if 1 < size <= MOST_GPUS and dropped <= max(1, FEW * len(sizes)) and dropped < len(sizes) / 2:
            return size, places, dropped
    uneven = steps.size and np.quantile(steps, 0.1) < np.quantile(steps, 0.9) / 4
    return 0 if uneven else 1, np.zeros(time.size, dtype=np.intp), 0
