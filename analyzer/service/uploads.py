"""What is done with a trace that somebody sent; runs in a worker process.

A file of a few kilobytes can say that it holds gigabytes, so its own words are checked before it is read: rows, columns, bytes
and types. What it does not say truly meets the memory and the time of the worker.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.sources import Source, source_of
from epochcast.analyzer.traces.csv_text import decoded, one_line
from epochcast.analyzer.traces.detection_json import detection_json
from epochcast.analyzer.traces.known_epochs import checked
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.trace import Trace, check_telemetry, trace_of_csv, trace_of_table
from epochcast.detector import detect
from epochcast.regressor import load_catalog
from epochcast.regressor.pipelines import Pipeline

Kind = Literal["parquet", "csv"]

NAME = "the trace"
"""What sentences call it: a name that the client gave would be repeated to it unchecked."""

MOST_CELLS = 40_000_000
"""Rows x columns of a trace: two days of 22 metrics at 10 Hz."""

MOST_COLUMNS = 1000

# Of the thrift structures in a Parquet file's footer, whose lengths it says itself.
_MOST_FOOTER = 16 * 2**20
_MOST_ITEMS = 200_000


def source_of_upload(
    data: bytes, kind: Kind, gpu: str | None, gpus: Path | None, pipeline: Pipeline, epochs: KnownEpochs | None = None
) -> Source:
    """Return the profile of the trace on ``gpu`` (None: as the trace says), with the catalogue that ``gpus`` adds to.

    Raises:
        InputError: no trace, or one of no known GPU; in one sentence.
    """
    trace = replace(read_upload(data, kind), epochs=epochs)
    return source_of(trace, NAME, load_catalog(gpus), gpu, pipeline=pipeline)


def detection_of_upload(data: bytes, kind: Kind, epochs: KnownEpochs | None = None) -> dict[str, Any]:
    """Return what `epochcast detect --json` answers for the trace. Raises InputError like `source_of_upload`."""
    trace = read_upload(data, kind)
    found = detect(trace.time, trace.metrics())
    return detection_json(found if epochs is None else checked(epochs, found, trace.time)[0], float(trace.time[0]))


def read_upload(data: bytes, kind: Kind) -> Trace:
    """Return the trace. Raises InputError like `source_of_upload`."""
    if not data:
        raise InputError("the body is empty; send a trace, Parquet or CSV")
    if kind == "parquet":
        return check_telemetry(trace_of_table(_table(data), NAME), NAME)
    text = decoded(data, NAME)
    if "\0" in text:
        raise InputError(f"{NAME} holds a NUL character; send CSV text or a Parquet file")
    header = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    _check_size(text.count("\n") + 1, header.count(",") + 1)
    return check_telemetry(trace_of_csv(text, NAME), NAME)


def _table(data: bytes) -> pa.Table:
    try:
        file = pq.ParquetFile(io.BytesIO(data), thrift_string_size_limit=_MOST_FOOTER, thrift_container_size_limit=_MOST_ITEMS)
        _check_size(file.metadata.num_rows, file.metadata.num_columns)
        for column in file.schema_arrow:
            _check_type(column)
        # Page by page, so that a file that holds more than it says is noticed.
        batches, rows = [], 0
        for batch in file.iter_batches(use_threads=False):
            rows += batch.num_rows
            _check_size(rows, batch.num_columns)
            batches.append(batch)
        return pa.Table.from_batches(batches, file.schema_arrow)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{NAME} is not a readable Parquet file: {one_line(error):.300}") from error


def _check_size(rows: int, columns: int) -> None:
    if columns > MOST_COLUMNS or rows * columns > MOST_CELLS or rows < 0:
        raise InputError(
            f"{NAME} has {rows} rows of {columns} columns; the service reads at most {MOST_COLUMNS} columns and "
            f"{MOST_CELLS} cells: send a part of the trace, or run `epochcast predict` on your own machine"
        )


def _check_type(column: pa.Field) -> None:
    kind = column.type
    # Half floats are not summed everywhere, and texts can unfold to any size.
    numbers = (pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_null)
    if not any(is_kind(kind) for is_kind in numbers):
        raise InputError(f"column {column.name!r:.80} of {NAME} holds {kind!s:.80}; give integers or floats")
