"""Instances and what they cost per hour: the shipped table (``prices.csv``) and the user's own file of the same columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from datetime import date
from importlib import resources
from pathlib import Path

import pandas as pd

from ...regressor import Catalog
from ...regressor.errors import InputError as UnknownGpu
from ..errors import InputError
from .instance import Instance

_REQUIRED = ("cloud", "instance", "gpu", "count", "region", "usd_per_hour", "source", "date")
_MOST_USD_PER_HOUR = 1e6  # a typing error; and what JSON cannot hold (infinity) must not come out of the cost


def load_instances(path: Path | None, catalog: Catalog) -> tuple[Sequence[Instance], Sequence[str]]:
    """Instances of the user's file (which replaces the shipped table), and one sentence for each row that was skipped.

    The file is CSV with columns cloud, instance, gpu, count, region, usd_per_hour, source, date (more are ignored); ``gpu``
    is any name or alias of the GPU catalogue. Rows of unknown GPUs are skipped; all else that is wrong raises InputError.
    """
    name = str(path) if path else "the shipped price table"
    with resources.as_file(resources.files(__package__) / "prices.csv") as shipped:
        table = _read(path or shipped, name)
    instances, skipped = [], []
    for number, row in enumerate(table.to_dict("records"), start=1):
        where = f"row {number} of {name}"
        try:
            gpu = catalog.resolve(str(row["gpu"])).name
        except UnknownGpu as error:
            skipped.append(f"{where} is skipped: {error}")
            continue
        instances.append(
            Instance(
                cloud=str(row["cloud"]),
                name=str(row["instance"]),
                gpu=gpu,
                count=_count(row["count"], where),
                region=str(row["region"]),
                usd_per_hour=_price(row["usd_per_hour"], where),
                source=str(row["source"]),
                date=_date(row["date"], where),
            )
        )
    if not instances:
        reason = f": {skipped[0]}" if skipped else ""
        raise InputError(f"{name} has no row with a GPU of the catalogue{reason}")
    return instances, skipped


def _read(path: Path, name: str) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
    except FileNotFoundError:
        raise InputError(f"no such price file: {name!r}") from None
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {' '.join(str(error).split())}") from error
    missing = [column for column in _REQUIRED if column not in table.columns]
    if missing:
        raise InputError(f"{name} lacks the columns {', '.join(missing)}; it needs {', '.join(_REQUIRED)}")
    for column in _REQUIRED:
        table[column] = table[column].str.strip()
    empty = table[(table[["source", "date"]] == "").any(axis="columns")]
    if len(empty):
        raise InputError(f"row {empty.index[0] + 1} of {name} has no source or date; say where and when the price was seen")
    return table


def _price(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < _MOST_USD_PER_HOUR:
        raise InputError(f"usd_per_hour of {where} is {text!r}; it must be a number above 0 and below {_MOST_USD_PER_HOUR:g}")
    return value


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) > 0):
        raise InputError(f"count of {where} is {text!r}; it must be a whole number of GPUs, 1 or more")
    return int(text)


def _date(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"date of {where} is {text!r}; write it as YYYY-MM-DD") from None
