"""CSV text and tables from files, or one sentence about what is wrong with them."""

from __future__ import annotations

import gzip
import io
import math
import sys
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError

#: Columns that hold a table's times, in the order of preference; capitals do not matter.
TIME_COLUMNS = ("time", "t", "timestamp")


def source_name(path: str | Path) -> str:
    """What messages call the source: the path, or ``standard input`` for ``-``."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path) -> str:
    """The text of a file, decompressed if its name ends in ``.gz``, or of standard input for ``-``; without a byte order mark.

    Raises InputError if it is missing, unreadable, or not UTF-8.
    """
    name = source_name(path)
    try:
        if str(path) == "-":
            return sys.stdin.read().removeprefix("\ufeff")
        if name.endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8-sig") as file:
                return file.read()
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"no such file: {name!r}") from None
    except IsADirectoryError:
        raise InputError(f"{name!r} is a folder; name a file in it") from None
    except UnicodeError as error:
        raise InputError(f"{name!r} is not a readable CSV file: {one_line(error)}; save it as UTF-8 text") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {one_line(error)}") from error


def parse_csv(text: str, name: str, as_text: Sequence[str] = ()) -> pd.DataFrame:
    """The table in a CSV text; lines from ``#`` on are comments. Raises InputError if it is empty or broken.

    Columns named in ``as_text`` keep their characters where these would make a number.
    """
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.StringIO(text),
                comment="#",
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
                dtype=dict.fromkeys(as_text, str),
            )
    except pd.errors.EmptyDataError:
        raise InputError(f"{name!r} is empty; a table needs a line of column names and at least one row") from None
    except (UnicodeError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {one_line(error)}") from error


def numeric_column(column: pd.Series[Any], title: str, name: str) -> pd.Series[Any]:
    """The column as floats, empty cells as NaN. Raises InputError for dates, text and infinities, naming the first such row."""
    if column.dtype.kind in "Mm":  # as numbers they would be nanoseconds
        raise InputError(f"column {title!r} of {name!r} holds dates or durations; give seconds as plain numbers")
    try:
        values = pd.to_numeric(column, errors="coerce").astype(np.float64)
    except OverflowError:  # an integer beyond every float, which "coerce" does not cover
        values = column.map(_float).astype(np.float64)
    bad = (values.isna() & column.notna()) | np.isinf(values)
    if bad.any():
        row = int(np.flatnonzero(bad.to_numpy())[0])
        value = column.iloc[row]
        seen = " ".join(repr(float(value) if isinstance(value, float) else value).split())[:60]
        remedy = (
            "times are unix seconds, unix milliseconds or ISO 8601, the same in every row"
            if title.lower() in TIME_COLUMNS
            else "metrics are finite numbers (leave the cell empty if there is no reading)"
        )
        raise InputError(f"column {title!r} of {name!r} holds {seen} in data row {row + 1}; {remedy}")
    return values


def _float(cell: object) -> float:
    try:
        return float(str(cell))
    except ValueError:
        return math.nan


def one_line(error: Exception) -> str:
    """An error's message without its line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
