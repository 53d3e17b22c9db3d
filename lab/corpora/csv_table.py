"""Reading a CSV file of measurements, and refusing a bad cell with its line."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.regressor.errors import InputError


def read_header(path: Path) -> set[str]:
    """The columns of a CSV file; raises InputError if it is unreadable or no CSV."""
    return set(_read(path, 0).columns)


def read_table(path: Path, words: Sequence[str], numbers: Sequence[str], positive: Sequence[str]) -> pd.DataFrame:
    """Read a CSV file, plain or packed.

    Args:
        path: of the file.
        words: columns in which no cell may be empty.
        numbers: columns of finite numbers.
        positive: columns of finite numbers above 0.

    Raises:
        InputError: the file is unreadable or no CSV, has no rows, lacks a column, or a cell is not what it must be.
    """
    table = _read(path)
    if missing := [column for column in (*words, *numbers, *positive) if column not in table]:
        raise InputError(f"{path.name} lacks {len(missing)} columns ({', '.join(missing[:3])}{', …' * (len(missing) > 3)})")
    if table.empty:
        raise InputError(f"{path.name} has no rows; give at least one workload on two GPUs")
    for column in (*words, *numbers, *positive):
        if column in words:
            bad, must = table[column].isna().to_numpy(), "fill it"
        else:
            values = pd.to_numeric(table[column], errors="coerce").astype(float)
            bad, must = ~np.isfinite(values.to_numpy()), "give a finite number"
            if column in positive:
                bad, must = bad | (values.to_numpy() <= 0), "give a finite number above 0"
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(f"{path.name}, row {row + 2}: {column} is {table[column][row]!r:.60}; {must} or remove the row")
    return table


def _read(path: Path, rows: int | None = None) -> pd.DataFrame:
    try:
        return pd.read_csv(path, nrows=rows, low_memory=False)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {str(path)!r} as CSV: {error}") from error
