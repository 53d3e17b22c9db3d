"""Times as logs write them, turned into unix seconds, and in order again where a clock or a logger disturbed that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import FEW, TIME_COLUMNS, numeric_column
from epochcast.analyzer.words import clock, count

#: From this absolute value on a time is in the unit: in seconds 1e11 is the year 5138, and in milliseconds it is 1973.
_UNITS = (("nanoseconds", 1e17, 1e9), ("microseconds", 1e14, 1e6), ("milliseconds", 1e11, 1e3))

#: nvidia-smi's, what spreadsheets make of it in Germany, Britain and America, and that of `nvidia-smi dmon`; without fractions.
_FORMATS = (
    *("%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p"),
    "%Y%m%d %H:%M:%S",
)
_FRACTION = r"(?<=:\d\d)\.(\d+)"
_DECIMAL = r"^(.*\d),(?=\d+\D*$)"
_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)\s*$"

_HOUR = 3600.0

Array = NDArray[np.float64]


def time_column(frame: pd.DataFrame, name: str) -> str:
    """The title of the column of times; raises InputError, calling the table ``name``, where it has none of `TIME_COLUMNS`."""
    spelled = {str(column).strip().lower(): column for column in reversed(frame.columns)}
    title = next((spelled[spelling] for spelling in TIME_COLUMNS if spelling in spelled), None)
    if title is None:
        seen = ", ".join(str(column)[:40] for column in frame.columns[:8])
        raise InputError(
            f"{name!r} has no column 'time' (or 't', 'timestamp'); it has {seen}; add such a column (nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -lms 100 logs one)"
        )
    if not isinstance(frame[title], pd.Series):  # a Parquet file may have two of a name
        raise InputError(f"{name!r} has more than one column {title!r}; give every metric its own name")
    return str(title)


def unix_seconds(column: pd.Series[Any], title: str, name: str) -> tuple[pd.Series[Any], bool, list[str]]:
    """The column's times [unix s], whether they are of a local clock, and a note on their form if not plain unix seconds.

    Numbers are unix seconds, or milli-, micro- or nanoseconds by their size; texts are ISO 8601 or one of `_FORMATS`, in UTC
    where they name no zone. An empty cell stays NaN, and so do a few that are none (two lines that a restart merged into one).

    Raises:
        InputError: cells that are none of these, naming the first one's row.
    """
    column = column.reset_index(drop=True)
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        texts: pd.Series[Any] = column.astype(str).str.strip().str.replace(_DECIMAL, r"\1.", regex=True).where(column.notna())
        column = texts
    present = column.dropna()
    if column.dtype.kind == "M":
        times, zoned = pd.to_datetime(column, utc=True), column.dt.tz is not None
    elif pd.to_numeric(present.iloc[:1], errors="coerce").notna().all():
        values = numeric_column(column, title, name)
        middle = values.abs().median()
        unit, factor = next(((unit, factor) for unit, least, factor in _UNITS if middle >= least), ("seconds", 1.0))
        plain = unit == "seconds" and title.lower() != "timestamp"  # our own format, of which nothing needs saying
        return values / factor, False, [] if plain else [f"column {title!r} is taken as unix {unit}"]
    else:
        times, zoned = _of_texts(column, title, name), bool(present.astype(str).str.contains(_ZONE).mean() > 1 - FEW)
    seconds = (pd.Series(times) - pd.Timestamp("1970-01-01", tz="UTC")).dt.total_seconds()
    note = f"column {title!r} names no time zone and is taken as UTC: lengths are right, dates may be hours off"
    return seconds, not zoned, [] if zoned else [note]


def in_order(
    time: Array, *, local: bool, twice: Callable[[], NDArray[np.bool_]] | None = None
) -> tuple[Array, NDArray[np.intp], list[str]]:
    """Times without an hour's steps of the clock, the order of rows in which they ascend, and a note on each repair.

    An hour back is one in any clock; an hour ahead, to within a row, only in a local one. Where time goes back over rows that
    are there already, they are left out; a small disorder is sorted. What is neither stays as it is, for the caller to refuse.

    Args:
        time: (n,) seconds, finite.
        local: whether they are of a clock that follows daylight saving time.
        twice: which rows are equal to one before, shape (n,).
    """
    notes = []
    steps = np.diff(time)
    row = float(np.quantile(steps[steps > 0], 0.98)) if (steps > 0).any() else 0.0
    if row < _HOUR / 6:
        near = max(2.0, min(2 * row, _HOUR / 40))
        back = (steps > -_HOUR - near) & (steps < near - _HOUR)
        ahead = (steps > _HOUR) & (steps < _HOUR + near) & local
        for where, what, summer in ((back, "back", "end"), (ahead, "ahead", "begin")):
            if where.any():
                at = clock(float(time[np.flatnonzero(where)[0]]))
                steps_text = "" if where.sum() == 1 else f" {where.sum()} times, first"
                notes.append(
                    f"the clock is set {what} by an hour{steps_text} after {at} ({summer} of daylight saving time?); the rows "
                    "are read as one continuous job"
                )
        time = time + _HOUR * np.concatenate([[0.0], np.cumsum(back.astype(float) - ahead)])
    order = np.arange(time.size)
    highest = np.maximum.accumulate(time)
    if twice is not None and (highest > time).any():
        went_back = np.concatenate([[False], np.diff(time) < 0])
        reached = np.maximum.accumulate(np.where(went_back, np.concatenate([[-np.inf], highest[:-1]]), -np.inf))
        again = (time <= reached) & twice()
        notes += [f"left out: {count(int(again.sum()), 'repeated row')}"] if again.any() else []
        order = order[~again]
    behind = np.maximum.accumulate(time[order]) - time[order]
    if 0 < (late := int((behind > 0).sum())) <= FEW * time.size and behind.max() <= max(10.0, 20 * row):
        order = order[np.argsort(time[order], kind="stable")]
        notes.append(f"sorted by time: {count(late, 'row')} out of order")
    return time, order, notes


def _of_texts(column: pd.Series[Any], title: str, name: str) -> pd.Series[Any]:
    plain = column.str.replace(_FRACTION, "", regex=True)
    some = plain.iloc[:: max(1, len(plain) // 500)]
    candidates = []
    for form in _FORMATS:
        times = pd.to_datetime(some, format=form, errors="coerce", utc=True)
        # Of day first and month first, which may both fit, the right one makes the shorter log.
        candidates.append((int(times.notna().sum()), -(times.max() - times.min()).total_seconds(), form))
    best = max((each for each in candidates if each[0]), default=(0, 0.0, ""))
    iso = pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True)
    if int(iso.loc[some.index].notna().sum()) >= best[0]:
        times = iso
    else:
        fraction = pd.to_numeric("0." + column.str.extract(_FRACTION)[0], errors="coerce").fillna(0.0)
        times = pd.to_datetime(plain, format=best[2], errors="coerce", utc=True) + pd.to_timedelta(fraction, unit="s")
    if (bad := times.isna() & column.notna()).sum() > FEW * len(column):
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{title} of {name!r} is {str(column.iloc[row])[:60]!r} in data row {row + 1}, which is not a time: write unix "
            "seconds, unix milliseconds or ISO 8601 (2026-01-31T23:59:59.5Z)"
        )
    return times
