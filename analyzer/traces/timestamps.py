"""Times as logs write them, turned into unix seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import TIME_COLUMNS, numeric_column

#: From this absolute value on a time is in the unit: in seconds 1e11 is the year 5138, and in milliseconds it is 1973.
_UNITS = (("nanoseconds", 1e17, 1e9), ("microseconds", 1e14, 1e6), ("milliseconds", 1e11, 1e3))

#: ISO 8601, and nvidia-smi's 2026/01/31 23:59:59.999.
_FORMATS = ("ISO8601", "%Y/%m/%d %H:%M:%S.%f")

_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)\s*$"


def with_time(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The frame with its times in a first column ``time`` [unix s], and sentences on what was taken for it, if that was open.

    Raises InputError, calling the table ``name``, where no column of `TIME_COLUMNS` is there or a cell of it holds no time.
    """
    spelled = {str(column).strip().lower(): column for column in reversed(frame.columns)}
    title = next((spelled[spelling] for spelling in TIME_COLUMNS if spelling in spelled), None)
    if title is None:
        seen = ", ".join(str(column)[:40] for column in frame.columns[:8])
        raise InputError(f"{name!r} has no column 'time' (or 't', 'timestamp'); it has {seen}; add such a column")
    if not isinstance(frame[title], pd.Series):  # a Parquet file may have two of a name
        raise InputError(f"{name!r} has more than one column {title!r}; give every metric its own name")
    times, notes = unix_seconds(frame[title], str(title), name)
    frame = frame.drop(columns=title)
    if "time" in frame.columns:
        raise InputError(f"{name!r} has the columns {title!r} and 'time'; keep one of them")
    frame.insert(0, "time", times)
    return frame, notes


def unix_seconds(column: pd.Series[Any], title: str, name: str) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """The column's times [unix s] and a sentence on their form where it is not plain unix seconds.

    Numbers are unix seconds, or milli-, micro- or nanoseconds by their size; texts are ISO 8601 or nvidia-smi's, in UTC where
    they name no zone. Raises InputError for a cell that is none of these, naming its row. An empty cell stays NaN.
    """
    column = column.reset_index(drop=True)
    present = column.dropna()
    if column.dtype.kind == "M":
        times, zoned = pd.to_datetime(column, utc=True), column.dt.tz is not None
    elif present.empty or _is_number(present.iloc[0]):
        return _of_numbers(numeric_column(column, title, name), title)
    else:
        times, zoned = _of_texts(column, title, name), bool(present.astype(str).str.contains(_ZONE).all())
    seconds = (times - pd.Timestamp("1970-01-01", tz="UTC")).dt.total_seconds()
    if zoned:
        return seconds, ()
    return seconds, (f"column {title!r} names no time zone and is taken as UTC: lengths are right, dates may be hours off",)


def _of_numbers(values: pd.Series[Any], title: str) -> tuple[pd.Series[Any], tuple[str, ...]]:
    middle = values.abs().median()
    unit, factor = next(((unit, factor) for unit, least, factor in _UNITS if middle >= least), ("seconds", 1.0))
    plain = unit == "seconds" and title.lower() != "timestamp"  # our own format, of which nothing needs saying
    return values / factor, () if plain else (f"column {title!r} is taken as unix {unit}",)


def _of_texts(column: pd.Series[Any], title: str, name: str) -> pd.Series[Any]:
    parsed = [pd.to_datetime(column, format=form, errors="coerce", utc=True) for form in _FORMATS]
    times = max(parsed, key=lambda each: int(each.notna().sum()))
    if (bad := times.isna() & column.notna()).any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"{title} of {name!r} is {str(column.iloc[row])[:60]!r} in data row {row + 1}, which is not a time: write unix "
            "seconds, unix milliseconds or ISO 8601 (2026-01-31T23:59:59.5Z)"
        )
    return times


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return True
