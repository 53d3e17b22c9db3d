"""CSV text and tables from files, or one sentence about what is wrong with them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import sys
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.words import count

#: Columns that hold a table's times, in the order of preference; capitals do not matter.
TIME_COLUMNS = ("time", "t", "timestamp", "query_time", "datetime")

FEW = 0.05
"""Up to so large a share of a log is repaired; beyond it the log is something else than it seems."""


def source_name(path: str | Path) -> str:
    """What messages call the source: the path, or ``standard input`` for ``-``."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path) -> str:
    """The text of a file, decompressed if its name ends in ``.gz``, or of standard input for ``-``; see `decoded`.

    Raises InputError if it is missing or unreadable.
    """
    name = source_name(path)
    try:
        if str(path) == "-":
            raw = getattr(sys.stdin, "buffer", None)
            return sys.stdin.read() if raw is None else decoded(raw.read(), name)
        content = Path(path).read_bytes()
        return decoded(gzip.decompress(content) if name.endswith(".gz") else content, name)
    except FileNotFoundError:
        raise InputError(f"no such file: {name!r}") from None
    except IsADirectoryError:
        raise InputError(f"{name!r} is a folder; name a file in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{name!r} is not a readable CSV file: its compression is cut off or damaged; copy it again"
        ) from error
    except OSError as error:
        raise InputError(f"{name!r} is not a readable CSV file: {error.strerror}; see who may read it") from error


def decoded(content: bytes, name: str) -> str:
    """The text in UTF-8, or in UTF-16 with its byte order mark (PowerShell's ``>``); raises InputError for anything else."""
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name!r} is not a readable CSV file: line {line} holds the byte 0x{content[error.start]:02x}, which is "
            "not UTF-8; save it as UTF-8 text"
        ) from None
    return text.replace("\r\n", "\n")


def read_table(text: str, name: str, keep_last: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """The table in a log that may be cut or damaged in a few lines, which are left out, with a note on each kind of them.

    Cells are separated by commas, semicolons or tabs, as the first line is; lines that begin with ``#`` are comments, and a
    header that is repeated is no row. ``keep_last``: whether a last line that does not end may be whole.

    Raises:
        InputError: it is empty, or its lines have other numbers of cells than its header.
    """
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not lines:
        raise InputError(f"{name!r} is empty; a table needs a line of column names and at least one row")
    header, *rows = lines
    notes = []
    separator = max(",;\t", key=header.count)
    if rows and not text.endswith("\n") and (not keep_last or rows[-1].count(separator) < header.count(separator)):
        rows.pop()
        notes.append("left out: the last line, which is cut off")
    rows = [row for row in rows if row != header]
    if (
        separator == ","
        and header.count(", ") == header.count(",")
        and _most(rows, ", ") == header.count(",") < _most(rows, ",")
    ):
        # nvidia-smi puts a blank behind a separator and none into a number: "66,41 W".
        header, rows, separator = header.replace(", ", ";"), [row.replace(", ", ";") for row in rows], ";"
    width = header.count(separator)
    if '"' in text:  # a separator may be within quotes
        width = len(_cells(header, separator)) - 1
        counts = [len(_cells(row, separator)) - 1 if '"' in row else row.count(separator) for row in rows]
    else:
        counts = [row.count(separator) for row in rows]
    if "\0" in text:  # blocks of a file that were never written, before a machine went down
        counts = [-1 if "\0" in row else number for row, number in zip(rows, counts, strict=True)]
    if wrong := sum(number != width for number in counts):
        first = next(place for place, number in enumerate(counts) if number != width)
        if wrong > max(1, FEW * len(rows)) or wrong == len(rows):
            number = text.split("\n").index(rows[first]) + 1 if rows[first] in text else first + 2
            raise InputError(
                f"line {number} of {name!r} is {rows[first][:60]!r}, {counts[first] + 1} cells for the {width + 1} columns "
                f"{header[:60]!r}; write a cell for each column, and decimal points or semicolons between the cells"
            )
        rows = [row for row, number in zip(rows, counts, strict=True) if number == width]
        notes.append(f"left out: {count(wrong, 'line')}, cut or merged")
    return parse_csv("\n".join([header, *rows]), name, separator=separator, comment=None), notes


def _most(rows: Sequence[str], part: str) -> int:
    """How often a middling line has this part."""
    counts = sorted(row.count(part) for row in rows[:999])
    return counts[len(counts) // 2] if counts else 0


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a NUL, or a cell without end
        return line.split(separator)


def parse_csv(
    text: str, name: str, as_text: Sequence[str] = (), separator: str = ",", comment: str | None = "#"
) -> pd.DataFrame:
    """The table in a CSV text; lines from ``comment`` on are left out. Raises InputError if it is empty or broken.

    Columns named in ``as_text`` keep their characters where these would make a number.
    """
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.StringIO(text),
                sep=separator,
                comment=comment,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
                dtype=dict.fromkeys(as_text, str),
            )
    except pd.errors.EmptyDataError:
        raise InputError(f"{name!r} is empty; a table needs a line of column names and at least one row") from None
    except (UnicodeError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        # pandas' own words name no remedy, and options of a function that nobody called.
        line = re.search(r"line (\d+)", str(error))
        where = f"line {line[1]} of {name!r}" if line else f"a line of {name!r}"
        raise InputError(
            f"{where} has more cells than the header, or a quote without its end, so this is not a readable CSV file; write a "
            "cell for each column"
        ) from error


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
