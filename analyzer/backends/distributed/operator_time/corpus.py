"""Measured operators as one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from epochcast.regressor import InputError as RegressorInputError

CORPUS_COLUMNS = ("gpu", "op", "pass", *SHAPE_COLUMNS, "seconds")
"""``gpu`` is the catalogue's name; ``pass`` is forward or backward; the others as in :mod:`.shapes`."""

_LONGEST = 3600.0
"""An operator of more than an hour is milliseconds or microseconds read as seconds."""


def read_corpus(path: Path, catalog: Catalog) -> pd.DataFrame:
    """Read measured operators from a CSV file, as ``python -m lab.measure operators`` writes it.

    Returns:
        One row per measured operator, columns :data:`CORPUS_COLUMNS`. A CPU, or a GPU that the catalogue does not have, keeps
        its name.

    Raises:
        InputError: the file cannot be read or lacks a column, or a row is no measurement.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read {str(path)!r}: {' '.join(str(error).split())[:200]}; give a CSV file") from error
    if missing := [name for name in CORPUS_COLUMNS if name not in table]:
        raise InputError(f"{path.name} holds no measured operators: it lacks {', '.join(missing)}")
    names = {device: _device(str(device), catalog) for device in table["gpu"].unique()}
    return checked(table[list(CORPUS_COLUMNS)].assign(gpu=table["gpu"].map(names)), path)


def checked(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Refuse rows that are no measurement: a time of 0 or a negative size would spoil every fit."""
    figures = table[["batch", "m", "n", "k", "bytes", "seconds"]].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    good = (np.isfinite(figures) & (figures > 0)).all(axis=1) & (figures[:, -1] < _LONGEST)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"{file.name}: measurement {row + 1} ({table['op'].iloc[row]} on {table['gpu'].iloc[row]}) has "
            f"{figures[row, -1]:g} seconds and {figures[row, -2]:g} bytes; both must be positive and below an hour; remove it"
        )
    return table


def _device(name: str, catalog: Catalog) -> str:
    try:
        return catalog.resolve(name).name
    except RegressorInputError:
        return name
