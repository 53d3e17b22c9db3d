"""The trace: telemetry of one GPU as one table, and its two file formats, CSV and Parquet.

A trace has a column ``time`` (unix seconds, strictly increasing) and one numeric column per metric, in base units under the
names of the metric catalogue; other numeric columns are usable under their own names. Tables of other programs and their
logs are read too (``table.py``, ``logs/``), and each GPU in one is a trace.
An empty cell (NaN) means "no reading at this tick". Both formats carry the same metadata, one JSON object: Parquet under the
schema key ``epochcast``, CSV in an optional first line ``# {...}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import is_telemetry
from epochcast.analyzer.traces.csv_text import FEW, numeric_column, one_line, read_text, source_name
from epochcast.analyzer.traces.logs import tables_of_text, wandb_run
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs, LoggedRun
from epochcast.analyzer.traces.table import DeviceTable, tables_of
from epochcast.analyzer.words import count, one_name
from epochcast.common.files import write_whole

SCHEMA = "epochcast.trace/v1"
PARQUET_KEY = b"epochcast"
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_METADATA = {"gpu": str, "uuid": str, "source": str, "simulated": bool, "static": dict, "missed_ticks": int, "job": dict}
_JSON_NAMES = {str: "string", bool: "boolean", dict: "object", int: "integer"}


@dataclass(frozen=True)
class Trace:
    """Telemetry of one GPU (or, with source ``host``, of one machine's CPU).

    ``frame`` has the float column ``time`` [unix s, strictly increasing] and one float column per metric [base units,
    NaN = no reading]. ``gpu`` is the device's name as its source reports it, ``uuid`` its identity, ``static`` its static
    attributes; ``source`` what read it (``nvml``, ``host``, ``replay``, …); ``simulated`` is true if no hardware was read.
    ``job`` has the network that the job's ``command`` or ``configuration`` names, and its ``batch``, as far as they are known.
    ``label`` says which GPU of its file it is (``GPU 3``), where that has several; ``notes`` are sentences on how the file was
    understood, where it does not say so itself; ``epochs`` those that are known without looking at metrics. None of the
    three is written to files.
    """

    frame: pd.DataFrame
    gpu: str | None = None
    uuid: str | None = None
    source: str | None = None
    simulated: bool = False
    static: Mapping[str, Any] = field(default_factory=dict)
    missed_ticks: int = 0
    job: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    notes: tuple[str, ...] = ()
    epochs: KnownEpochs | None = None

    @property
    def title(self) -> str:
        """What people call it: its label, name and UUID, as far as they are known."""
        known = ", ".join(filter(None, (self.gpu, self.uuid)))
        return f"{self.label} ({known})" if self.label and known else self.label or known or "GPU"

    @property
    def time(self) -> NDArray[np.float64]:
        """Sample times, shape (n,) [unix s]."""
        return self.frame["time"].to_numpy(dtype=np.float64)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metric columns, in file order."""
        return tuple(name for name in self.frame.columns if name != "time")

    def metrics(self, names: Sequence[str] = ()) -> dict[str, NDArray[np.float64]]:
        """Metric columns as arrays of shape (n,); all of them if ``names`` is empty. Unknown names raise InputError."""
        for name in names:
            if name not in self.metric_names:
                raise InputError(f"the trace has no metric {name!r}; it has {', '.join(self.metric_names)}")
        return {name: self.frame[name].to_numpy(dtype=np.float64) for name in (names or self.metric_names)}

    def metadata(self) -> dict[str, Any]:
        """Everything but the samples, as the JSON object that both file formats carry."""
        values = {key: getattr(self, key) for key in _METADATA}
        return {"schema": SCHEMA} | {key: dict(value) if _METADATA[key] is dict else value for key, value in values.items()}


def read_traces(path: str | Path) -> list[Trace]:
    """Read the traces in a file, one for each of its GPUs: Parquet, CSV (``.csv.gz`` too; ``-`` reads it from standard input),
    a run of wandb (its folder, or the ``.wandb`` file in it) or another tool's log, recognised by its first lines. Of several
    GPUs each has a label of its own.

    Raises InputError with one sentence for a missing or unreadable file, a missing ``time`` column, times that are not
    finite, unsorted or duplicate, anything but numbers in a metric column, metadata of a wrong kind, and an empty table.
    """
    if str(path).endswith((".parquet", ".pq")):
        return _of_parquet(_read_parquet(Path(path)), str(path))
    if (run := wandb_run.run_file(path)) is not None:
        return traces_of_run(wandb_run.read(run), str(path))
    return traces_of_csv(read_text(path), source_name(path))


def read_trace(path: str | Path) -> Trace:
    """Read the one trace in a file; raises InputError like `read_traces`, and for a log of several GPUs."""
    return _only(read_traces(path), source_name(path))


def make_trace(
    frame: pd.DataFrame,
    metadata: Mapping[str, Any],
    name: str,
    label: str | None = None,
    notes: tuple[str, ...] = (),
) -> Trace:
    """The trace of a table and any of the metadata's keys; raises InputError like `read_trace`, calling the table ``name``."""
    frame, notes = _checked(frame, name, notes)
    known = {key: metadata[key] for key in _METADATA if metadata.get(key) is not None}
    return Trace(frame, **known | {"gpu": one_name(known.get("gpu"))}, label=label, notes=notes)


def write_trace(trace: Trace, path: str | Path) -> Path:
    """Write ``trace`` as Parquet or CSV, by the suffix of ``path``; the file appears whole or not at all.

    Raises InputError for another suffix or a folder that cannot be written.
    """
    path = Path(path)
    if path.suffix in (".parquet", ".pq"):
        table = pa.Table.from_pandas(trace.frame, preserve_index=False)
        table = table.replace_schema_metadata({PARQUET_KEY: json.dumps(trace.metadata()).encode()})
        write_whole(path, lambda file: pq.write_table(table, file, compression="zstd"))
    elif path.suffix == ".csv":
        text = f"# {json.dumps(trace.metadata())}\n" + trace.frame.to_csv(index=False)
        write_whole(path, lambda file: file.write(text.encode()))
    else:
        raise InputError(f"cannot write a trace to {str(path)!r}: name a file that ends in .parquet or .csv")
    return path


def check_telemetry(trace: Trace, name: str) -> Trace:
    """The trace; raises InputError, calling it ``name``, if its columns say nothing of the hardware that ran."""
    if trace.source is None and not any(map(is_telemetry, trace.metric_names)):
        seen = f"only {', '.join(trace.metric_names[:8])}" if trace.metric_names else "no column with numbers"
        raise InputError(
            f"{name!r} has no telemetry beside its times, {seen}; log the GPU with epochcast record, or nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -lms 100"
        )
    return trace


def path_of(trace: Trace, path: Path) -> Path:
    """The name of one of several GPUs' files: ``run.gpu3.png`` for ``run.png`` and the label ``GPU 3``."""
    label = re.sub(r"[^\w-]+", "", str(trace.label)).lower()
    return path.with_suffix(f".{label}{path.suffix}")


def trace_of_table(table: pa.Table, name: str) -> Trace:
    """The trace in a table of a Parquet file; raises InputError like `read_trace`, calling it ``name``."""
    return _only(_of_parquet(table, name), name)


def traces_of_frame(frame: pd.DataFrame, name: str, metadata: Mapping[str, Any] | None = None) -> list[Trace]:
    """The trace of each GPU in a table as a tool or a program wrote it; raises InputError like `read_traces`."""
    return traces_of_tables(tables_of(frame, name, dict(metadata or {})), name)


def traces_of_csv(text: str, name: str) -> list[Trace]:
    """The traces in a CSV text, ours or another tool's; raises InputError like `read_traces`, calling it ``name``."""
    first, _, rest = text.partition("\n")
    ours = first.startswith("# {")
    tables = tables_of_text(rest, name, parse_metadata(first[1:], name)) if ours else tables_of_text(text, name)
    return traces_of_tables(tables, name)


def traces_of_tables(tables: Sequence[DeviceTable], name: str) -> list[Trace]:
    """The trace of each GPU's table; raises InputError like `read_traces`, calling their source ``name``."""
    several = len(tables) > 1
    return [
        make_trace(table.frame, table.metadata, f"{name}, {table.label}" if several else name, table.label, table.notes)
        for table in tables
    ]


def traces_of_run(run: LoggedRun, name: str) -> list[Trace]:
    """The traces of a run, with the epochs that it counted itself."""
    return [replace(trace, epochs=run.epochs()) for trace in traces_of_tables(run.tables, name)]


def trace_of_csv(text: str, name: str) -> Trace:
    """The one trace in a CSV text; raises InputError like `read_trace`, calling it ``name``."""
    return _only(traces_of_csv(text, name), name)


def _of_parquet(table: pa.Table, name: str) -> list[Trace]:
    raw = (table.schema.metadata or {}).get(PARQUET_KEY)
    # What pandas wrote of its index describes how to make one, and may be wrong; a trace has none.
    columns = [place for place, column in enumerate(table.column_names) if not PANDAS_INDEX.fullmatch(column)]
    frame = table.select(columns).replace_schema_metadata().to_pandas()
    return traces_of_frame(frame, name, parse_metadata(raw, name))


def _only(gpus: list[Trace], name: str) -> Trace:
    if len(gpus) == 1:
        return gpus[0]
    seen = ", ".join([*(str(gpu.label) for gpu in gpus[:8]), *(["…"] if len(gpus) > 8 else [])])
    raise InputError(
        f"{name!r} holds {len(gpus)} GPUs ({seen}), but a single GPU is needed here; detect, predict and recommend take all"
    )


def _read_parquet(path: Path) -> pa.Table:
    try:
        # Opened here: given a path, pyarrow would read a folder too, and make columns of a folder's name like "gpu=0".
        with path.open("rb") as file:
            return pq.ParquetFile(file).read()
    except FileNotFoundError:
        raise InputError(f"no such file: {str(path)!r}") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{str(path)!r} is not a readable Parquet file: {one_line(error)}") from error


def parse_metadata(text: str | bytes | None, name: str) -> dict[str, Any]:
    """The metadata object with all of its keys, None where one is absent; raises InputError like `read_trace`."""
    try:
        metadata = json.loads(text or "{}")
        json.dumps(metadata, ensure_ascii=False).encode()  # half a character ("\\ud800") is text to Python alone
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or an integer of thousands of digits
        raise InputError(f"the metadata of {name!r} is not JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise InputError(f"the metadata of {name!r} is a {type(metadata).__name__}, not a JSON object")
    schema = metadata.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(f"{name!r} has schema {schema!r}; this version reads {SCHEMA!r}")
    for key, kind in _METADATA.items():
        value = metadata.setdefault(key, None)
        if value is not None and type(value) is not kind:
            raise InputError(
                f"{key!r} in the metadata of {name!r} is {value!r}; give a JSON {_JSON_NAMES[kind]}, or leave it out"
            )
    return metadata


def _checked(frame: pd.DataFrame, name: str, notes: tuple[str, ...]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if len(frame) == 0:
        raise InputError(f"{name!r} has no rows")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"{name!r} has more than one column {twice!r}; give every metric its own name")
    frame = pd.DataFrame({str(column): numeric_column(frame[column], str(column), name) for column in frame.columns})
    time = frame["time"].to_numpy()
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise InputError(f"{name!r} has no valid time in data row {row + 1}; give every row a time in unix seconds")
    steps = np.diff(time)
    repeated = np.concatenate([[False], steps == 0])
    if 0 < repeated.sum() <= FEW * len(time):
        notes = (*notes, f"left out: {count(int(repeated.sum()), 'row')} with the time of the row before")
        frame = frame[~repeated].reset_index(drop=True)
    elif repeated.any() or (steps < 0).any():
        row = int(np.flatnonzero(steps <= 0)[0]) + 1
        what = "repeats" if steps[row - 1] == 0 else "goes back from"
        raise InputError(
            f"time {what} {time[row - 1]:.3f} in data row {row + 1} of {name!r}; if the rows are of several GPUs, add a column "
            "`index` with the GPU's number or write one file per GPU, else keep one row per time, the earliest first"
        )
    return frame, notes
