"""What the adapters of CSV files share: reading them, and refusing a bad cell with its line."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.regressor.errors import InputError


def read_table(path: Path, rows: int | None = None) -> pd.DataFrame:
    """Read a CSV file, plain or packed; ``rows`` stops early (0: the header alone).

    Raises:
        InputError: the file is unreadable or no CSV.
    """
    try:
        return pd.read_csv(path, nrows=rows, low_memory=False)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {str(path)!r} as CSV: {error}") from error


def check_filled(table: pd.DataFrame, columns: Iterable[str], name: str) -> None:
    """Refuse the first empty cell of these columns; ``name`` is the file's, for the message.

    Raises:
        InputError: a cell is empty.
    """
    for column in columns:
        if (empty := table[column].isna()).any():
            raise InputError(f"{name}, row {int(np.argmax(empty)) + 2}: {column} is empty; fill it or remove the row")


def numbers(table: pd.DataFrame, column: str, name: str) -> NDArray[np.float64]:
    """Return a column as finite floats, shape (rows,).

    Raises:
        InputError: a cell holds none; the first is named with its line.
    """
    values = pd.to_numeric(table[column], errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{name}, row {row + 2}: {column} is '{table[column].iloc[row]}'; give a finite number or remove the row"
        )
    return values


def positive(table: pd.DataFrame, column: str, name: str) -> NDArray[np.float64]:
    """Return a column of durations, shape (rows,).

    Raises:
        InputError: a cell holds no finite number above 0; the first is named with its line.
    """
    values = numbers(table, column, name)
    if (values <= 0).any():
        row = int(np.argmax(values <= 0))
        raise InputError(f"{name}, row {row + 2}: {column} is {values[row]}; it must be above 0, remove the row")
    return values
