"""A table of measurements that users give, checked column by column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column, parse_csv, read_text, source_name


class MeasuredTable:
    """A CSV file with one row at least.

    Args:
        path: of the file.
        as_text: columns that keep their characters.
        columns: where the columns are said, for messages.

    Raises:
        InputError: the file is no such table, holds no row, or (of all methods) lacks a column, or a value cannot be.
    """

    def __init__(self, path: Path, as_text: Sequence[str], columns: str) -> None:
        self.name, self._columns = source_name(path), columns
        self.rows = parse_csv(read_text(path), self.name, as_text=as_text)
        if self.rows.empty:
            raise InputError(f"{self.name!r} holds no row below its header; give at least one")

    def texts(self, column: str) -> pd.Series[str]:
        """None of them empty."""
        values = self.column(column)
        self._refuse(column, values.isna(), "fill it in")
        return values

    def numbers(
        self, column: str, least: float = 0.0, most: float = np.inf, instead: pd.Series[float] | float | None = None
    ) -> pd.Series[float]:
        """Between two bounds; where it is empty ``instead``, which may be NaN; another column may replace a missing one."""
        if isinstance(instead, pd.Series) and column not in self.rows:
            return instead
        values = numeric_column(self.column(column), column, self.name)
        if instead is not None:
            values = values.fillna(instead)
        allowed = f"a number of {least:g} or more" if most == np.inf else f"a number from {least:g} to {most:g}"
        possible = values.between(least, most) | (values.isna() & (instead is not None))
        self._refuse(column, ~possible, f"give {allowed}")
        return values

    def column(self, column: str) -> pd.Series[Any]:
        """As it is."""
        if column not in self.rows:
            raise InputError(f"{self.name!r} lacks the column {column!r}; {self._columns}")
        return self.rows[column]

    def _refuse(self, column: str, bad: pd.Series[bool], remedy: str) -> None:
        if bad.any():
            row = int(bad.to_numpy().argmax())
            value = self.rows[column].tolist()[row]  # of Python, not of numpy
            seen = "is empty" if pd.isna(value) else f"holds {value!r}"
            raise InputError(f"column {column!r} of {self.name!r} {seen} in data row {row + 1}; {remedy}")
