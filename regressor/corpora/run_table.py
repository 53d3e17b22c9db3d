"""A corpus of our own: ``corpus.parquet``, one row per run of a campaign.

A row holds the fields of a :class:`~epochcast.regressor.Profile` under their names and its statistics as ``METRIC_STATISTIC``
(``gpu_utilization_mean``), null where the device has no such metric. Its precision and batch come from the run's labels.
The analyzer's other notes about a run have their own columns; unknown columns are ignored. A run on a CPU has no
statistics.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from epochcast.regressor.errors import InputError
from epochcast.regressor.precision import precision_of
from epochcast.regressor.profile import DCGM_METRICS, NVML_METRICS, STATISTICS, Profile
from epochcast.regressor.profile_json import SCHEMA as PROFILE_SCHEMA
from epochcast.regressor.profile_json import read_profile

FILE_NAME = "corpus.parquet"

STATISTIC_COLUMNS = {
    f"{metric}_{statistic}": (metric, statistic) for metric in NVML_METRICS + DCGM_METRICS for statistic in STATISTICS
}
"""Column -> metric and statistic."""

# From labels, what is the same for every run of a campaign, and what no model learns from.
_NOT_IN_TABLE = {
    *("metrics", "precision", "batch", "origin", "gpus", "wait_share", "tensor_clock", "throttled", "held_idle_s"),
    *("type", "inference"),
}
FIELD_COLUMNS = tuple(field.name for field in fields(Profile) if field.name not in _NOT_IN_TABLE)


def load(path: Path) -> list[Profile]:
    """Read the profile of every run, in the order of the rows; those of CPUs name no GPU that a catalogue knows.

    Raises:
        InputError: as :func:`read_rows`, or there is no row.
    """
    profiles = [row_profile(row, number, path) for number, row in enumerate(read_rows(path), start=1)]
    if not profiles:
        raise InputError(f"{str(table_file(path))!r} has no runs; run a campaign into it")
    return profiles


def table_file(path: Path) -> Path:
    """Return the table of a corpus that is given as its folder or as the table itself."""
    return path / FILE_NAME if path.is_dir() else path


def is_corpus(path: Path) -> bool:
    """Whether a path is a corpus, given as its folder or as the table."""
    return table_file(path).suffix == ".parquet" and table_file(path).is_file()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows as column -> value, ``None`` where there is none.

    Args:
        path: the folder of a corpus, or its table.

    Raises:
        InputError: the table is missing, no Parquet, or lacks a column.
    """
    import pyarrow as pa  # pandas would make floats of whole numbers beside gaps
    import pyarrow.parquet as pq

    file = table_file(path)
    try:
        with file.open("rb") as content:
            table = pq.ParquetFile(content).read()
    except FileNotFoundError:
        raise InputError(f"there is no corpus at {str(path)!r}; give a folder with {FILE_NAME}, or that file") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{str(file)!r} is not a readable Parquet file: {' '.join(str(error).split())}") from error
    there = set(table.column_names)  # made again at each call, of hundreds of names
    if missing := [name for name in (*FIELD_COLUMNS, *STATISTIC_COLUMNS) if name not in there]:
        raise InputError(
            f"{str(file)!r} lacks {len(missing)} columns of a corpus ({', '.join(missing[:3])}, …); "
            f"give the {FILE_NAME} of a campaign"
        )
    # NaN is how pandas fills a gap when it rewrites the file, as somebody does who leaves rows out.
    return [{name: None if value != value else value for name, value in row.items()} for row in table.to_pylist()]


def row_profile(row: Mapping[str, Any], number: int, path: Path) -> Profile:
    """Return the profile in a row; its number, from 1, and the path are for the message.

    Raises:
        InputError: it holds a value that no profile can have.
    """
    metrics: dict[str, dict[str, float]] = {}
    for column, (metric, statistic) in STATISTIC_COLUMNS.items():
        if row[column] is not None:
            metrics.setdefault(metric, {})[statistic] = row[column]
    values = {name: row[name] for name in FIELD_COLUMNS}
    values |= {"precision": precision_of(row.get("precision")), "batch": row.get("batch_size")}
    try:
        return read_profile({"schema": PROFILE_SCHEMA, **values, "metrics": metrics})
    except InputError as error:
        raise InputError(f"row {number} of {str(table_file(path))!r}: {error}") from error
