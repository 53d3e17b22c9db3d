"""CSV tables with columns of numbers between bounds, or one sentence about what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ....csv_text import parse_csv, read_text
from ....errors import InputError


@dataclass(frozen=True)
class Column:
    """A column of numbers from ``least`` to ``most``; empty cells take the value of the column ``instead``, if there is one."""

    name: str
    least: float
    most: float = np.inf
    instead: str | None = None


def read_table(path: str | Path, columns: Sequence[Column], names: Sequence[str], also: Sequence[str] = ()) -> pd.DataFrame:
    """The columns of numbers as floats and those in ``names`` as text; those in ``also`` may be absent and are then empty.

    Raises:
        InputError: the file cannot be read, lacks a column or any row, or a cell is empty or out of its bounds.
    """
    if str(path) != "-" and not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}; give a CSV file")
    text = read_text(path)
    needed = [*names, *(column.name for column in columns if column.instead is None)]
    if not text.strip():
        raise InputError(f"{str(path)!r} is empty; it needs the columns {', '.join(needed)}")
    table = parse_csv(text, str(path), as_text=(*names, *also))
    if missing := [name for name in needed if name not in table]:
        raise InputError(f"{str(path)!r} lacks the column {missing[0]!r}; it needs {', '.join(needed)}")
    if table.empty:
        raise InputError(f"{str(path)!r} holds no row below its header; give at least one")
    for name in names:
        if (empty := table[name].isna()).any():
            row = int(empty.to_numpy().argmax()) + 1
            raise InputError(f"column {name!r} of {str(path)!r} is empty in data row {row}; fill it in")
    texts = {name: table[name].fillna("") if name in table else "" for name in also}
    return table.assign(**texts, **_numbers(table, columns, str(path)))


def _numbers(table: pd.DataFrame, columns: Sequence[Column], name: str) -> dict[str, pd.Series[float]]:
    """The columns of numbers, checked; later ones may stand in for their empty cells with earlier ones."""
    checked: dict[str, pd.Series[float]] = {}
    for column in columns:
        given = table[column.name] if column.name in table else pd.Series(np.nan, table.index)
        values = pd.to_numeric(given, errors="coerce").astype(float)
        bad = given.notna() & ~(np.isfinite(values) & values.between(column.least, column.most))
        if column.instead is None:
            bad |= given.isna()
        if bad.any():
            row = int(bad.to_numpy().argmax())
            seen = given.tolist()[row]  # of Python, not of numpy
            holds = "is empty" if pd.isna(seen) else f"holds {seen!r}"
            wanted = f"a number of {column.least:g} or more"
            if np.isfinite(column.most):
                wanted = f"a number from {column.least:g} to {column.most:g}"
            raise InputError(f"column {column.name!r} of {name!r} {holds} in data row {row + 1}; give {wanted}")
        checked[column.name] = values if column.instead is None else values.fillna(checked[column.instead])
    return checked
