"""Measured operators as one table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS
from epochcast.analyzer.backends.measured_table import MeasuredTable
from epochcast.regressor import Catalog
from epochcast.regressor import InputError as RegressorInputError

_TEXTS = ("gpu", "op", "pass", "family", "dtype")

CORPUS_COLUMNS = ("gpu", "op", "pass", *SHAPE_COLUMNS, "seconds")
"""``gpu`` is the catalogue's name; ``pass`` is forward or backward; the others as in :mod:`.shapes`."""

SHORTEST, LONGEST = 1e-9, 3600.0
"""Seconds of an operator: more than an hour is milliseconds or microseconds read as seconds."""


def read_corpus(path: Path, catalog: Catalog) -> pd.DataFrame:
    """Read measured operators from a CSV file, as ``python -m lab.measure operators`` writes it.

    Returns:
        One row per measured operator, columns :data:`CORPUS_COLUMNS`. A CPU, or a GPU that the catalogue does not have, keeps
        its name.

    Raises:
        InputError: the file cannot be read or lacks a column, or a row is no measurement.
    """
    table = MeasuredTable(path, _TEXTS, f"a table of operators has {', '.join(CORPUS_COLUMNS)}")
    least = {"flops": 0.0, "seconds": SHORTEST}
    columns = {
        name: table.texts(name)
        if name in _TEXTS
        else table.numbers(name, least.get(name, 1.0), LONGEST if name == "seconds" else float("inf"))
        for name in CORPUS_COLUMNS
    }
    names = {device: _device(device, catalog) for device in columns["gpu"].unique()}
    return pd.DataFrame(columns).assign(gpu=columns["gpu"].map(names))


def _device(name: str, catalog: Catalog) -> str:
    try:
        return catalog.resolve(name).name
    except RegressorInputError:
        return name
