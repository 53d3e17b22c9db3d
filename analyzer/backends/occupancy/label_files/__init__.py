"""Tables of measured occupancies, brought into the table of points; a format is one file here and one line in ``_FORMATS``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from .....regressor import Catalog, Gpu, load_catalog
from ....csv_text import parse_csv
from ....errors import InputError
from ..points import COLUMNS, CONFIGURATION, TEXTS, Reading, check_points, table_text
from . import occupancy_bench, occupancy_bench_ncu

__all__ = ["Reading", "read_all", "read_any"]


class _Format(Protocol):
    NAME: str

    def recognises(self, table: pd.DataFrame) -> bool:
        """Whether the columns are those of this format."""
        ...

    def read(self, table: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None) -> Reading:
        """What the file at this path holds, ``gpu`` in place of the GPU that it tells."""
        ...


_FORMATS: Sequence[_Format] = (occupancy_bench, occupancy_bench_ncu)

_IN_A_FOLDER = "occupancy.csv"


def read_all(paths: Sequence[Path], catalog: Catalog | None = None, gpu: Gpu | None = None) -> Reading:
    """Read tables of `benchmark occupancy` and of the known formats, as one.

    Args:
        paths: at least one CSV file or .csv.gz; the format is told by the columns. Of a folder its ``occupancy.csv`` is read.
        catalog: of GPUs; ours by default.
        gpu: that it was measured on, where a file does not tell it or tells it wrongly.

    Raises:
        InputError: a file is missing or of no known format, a cell is none that can be, a GPU is not known, no row is left, or
            two files hold the same configuration.
    """
    catalog = catalog or load_catalog()
    tables: list[pd.DataFrame] = []
    left_out: Counter[str] = Counter()
    notes: list[str] = []
    for path in paths:
        reading = _read(path, catalog, gpu)
        tables.append(reading.points)
        left_out.update(reading.left_out)
        notes += reading.notes
    points = pd.concat(tables, ignore_index=True)
    if (twice := points.duplicated([*CONFIGURATION, "gpu", "labels"])).any():
        one = points[twice].iloc[0]
        raise InputError(
            f"{one['network']!r} at batch {one['batch']} on {one['gpu']!r} stands in several of the files with the same sizes; "
            "give each measurement once"
        )
    return Reading(points, dict(left_out), tuple(notes))


def read_any(path: Path, catalog: Catalog | None = None, gpu: Gpu | None = None) -> pd.DataFrame:
    """The points of one table (columns ``points.COLUMNS``); arguments and errors as :func:`read_all`."""
    return _read(path, catalog or load_catalog(), gpu).points


def _read(path: Path, catalog: Catalog, gpu: Gpu | None) -> Reading:
    if path.is_dir():
        if not (path / _IN_A_FOLDER).is_file():
            raise InputError(f"the folder {str(path)!r} holds no {_IN_A_FOLDER}; give the table of labels itself")
        path = path / _IN_A_FOLDER
    table = parse_csv(table_text(path), str(path), as_text=TEXTS)
    found = next((one for one in _FORMATS if one.recognises(table)), None)
    if found is not None:
        reading = found.read(table, path, catalog, gpu)
        return Reading(check_points(reading.points, str(path), catalog), reading.left_out, reading.notes)
    if len(set(table.columns) & set(COLUMNS)) < len(CONFIGURATION):
        known = ", ".join(one.NAME for one in _FORMATS)
        seen = ", ".join(map(str, table.columns[:4]))
        raise InputError(
            f"{str(path)!r} has the columns {seen} …, which are those of no known table of occupancies; give one of "
            f"`epochcast benchmark occupancy` or of: {known}"
        )
    if gpu is not None:
        if len(told := sorted(set(table.get("gpu", pd.Series(dtype=str)).dropna()))) > 1:
            both = " and ".join(map(repr, told))
            raise InputError(f"{str(path)!r} tells of {both}, and --gpu would count all rows as {gpu.name!r}; leave it out")
        table = table.assign(gpu=gpu.name)
    return Reading(check_points(table, str(path), catalog))
