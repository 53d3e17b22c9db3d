"""Reading and writing traces: two file formats of our own, CSV and Parquet, tables of other programs, and other tools' logs.

Both formats carry the same metadata, one JSON object: Parquet under the schema key ``epochcast``, CSV in an optional first line
``# {...}``. Of a table of several GPUs each is a trace (``table.py``, ``logs/``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import is_telemetry
from epochcast.analyzer.traces.csv_text import one_line, read_table, read_text, source_name
from epochcast.analyzer.traces.gpu_trace import METADATA, SCHEMA
from epochcast.analyzer.traces.gpu_trace import Trace as Trace
from epochcast.analyzer.traces.gpu_trace import make_trace as make_trace
from epochcast.analyzer.traces.logs import dmon, exported_series, nvidia_smi, wandb_run
from epochcast.analyzer.traces.table import gpu_traces
from epochcast.common.files import write_whole

PARQUET_KEY = b"epochcast"
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_JSON_NAMES = {str: "string", bool: "boolean", dict: "object", int: "integer"}

#: Whether a text that begins so is of a kind, and what reads it.
_READERS = (
    (dmon.recognises, dmon.read),
    (exported_series.is_of_grafana, exported_series.read_grafana),
    (exported_series.is_of_prometheus, exported_series.read_prometheus),
)
_HEAD = 4096


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
        return wandb_run.read(run)
    return traces_of_csv(read_text(path), source_name(path))


def read_trace(path: str | Path) -> Trace:
    """Read the one trace in a file; raises InputError like `read_traces`, and for a log of several GPUs."""
    return _only(read_traces(path), source_name(path))


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
    require_telemetry(trace.source, trace.metric_names, name)
    return trace


def require_telemetry(source: str | None, metrics: Sequence[str], name: str) -> None:
    """Raise InputError, calling the trace ``name``, for metrics of no known source none of which is of hardware."""
    if source is None and not any(map(is_telemetry, metrics)):
        seen = f"only {', '.join(metrics[:8])}" if metrics else "no column with numbers"
        raise InputError(
            f"{name!r} has no telemetry beside its times, {seen}; log the GPU with epochcast record, or nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -lms 100"
        )


def path_of(trace: Trace, path: Path) -> Path:
    """The name of one of several GPUs' files: ``run.gpu3.png`` for ``run.png`` and the label ``GPU 3``."""
    label = re.sub(r"[^\w-]+", "", str(trace.label)).lower()
    return path.with_suffix(f".{label}{path.suffix}")


def trace_of_table(table: pa.Table, name: str) -> Trace:
    """The trace in a table of a Parquet file; raises InputError like `read_trace`, calling it ``name``."""
    return _only(_of_parquet(table, name), name)


def traces_of_csv(text: str, name: str) -> list[Trace]:
    """The traces in a CSV text, ours or another tool's; raises InputError like `read_traces`, calling it ``name``."""
    first, _, rest = text.partition("\n")
    metadata = None
    if first.startswith("# {"):
        metadata, text = parse_metadata(first[1:], name), rest
    else:
        head = text[:_HEAD]
        nvidia_smi.refuse_printed(head, name)
        for recognises, read in _READERS:
            if recognises(head):
                return read(text, name)
    text, notes, of_smi = nvidia_smi.with_header(text, name)
    table, said = read_table(text, name, keep_last=metadata is None and not of_smi)
    return gpu_traces(table, name, metadata, [*notes, *said])


def trace_of_csv(text: str, name: str) -> Trace:
    """The one trace in a CSV text; raises InputError like `read_trace`, calling it ``name``."""
    return _only(traces_of_csv(text, name), name)


def _of_parquet(table: pa.Table, name: str) -> list[Trace]:
    raw = (table.schema.metadata or {}).get(PARQUET_KEY)
    # What pandas wrote of its index describes how to make one, and may be wrong; a trace has none.
    columns = [place for place, column in enumerate(table.column_names) if not PANDAS_INDEX.fullmatch(column)]
    frame = table.select(columns).replace_schema_metadata().to_pandas()
    return gpu_traces(frame, name, parse_metadata(raw, name))


def _only(gpus: list[Trace], name: str) -> Trace:
    if len(gpus) == 1:
        return gpus[0]
    seen = ", ".join([*(str(gpu.label) for gpu in gpus[:8]), *(["…"] if len(gpus) > 8 else [])])
    raise InputError(
        f"{name!r} holds {len(gpus)} GPUs ({seen}), but a file here holds one: write one file for each GPU "
        "(detect, predict and recommend take all of them)"
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
    for key, kind in METADATA.items():
        value = metadata.setdefault(key, None)
        if value is not None and type(value) is not kind:
            raise InputError(
                f"{key!r} in the metadata of {name!r} is {value!r}; give a JSON {_JSON_NAMES[kind]}, or leave it out"
            )
    return metadata
