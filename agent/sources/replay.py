"""A recorded trace, or a folder of them, played as if it happened now, at any speed."""

import csv
import json
import logging
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.config import Config
from epochcast.agent.sources import Attribute, Device, Row, Source, Tick
from epochcast.common.errors import InputError
from epochcast.extras import how_to_install

SCHEMA = "epochcast.trace/v1"
TIME_NAMES = ("time", "t")
# Files of a folder that are taken for traces.
SUFFIXES = (".csv", ".parquet", ".pq")
# Above this many ticks a second a tick hands over several rows instead: a faster thread would only burn CPU.
MOST_HERTZ = 100.0
# However slow the replay: the first row is due within a second, and health sees that the sampler lives.
LEAST_HERTZ = 1.0

log = logging.getLogger(__name__)


class ReplayTrace(NamedTuple):
    """A trace that was read: ``time`` [rows] unix seconds, increasing, and ``values`` [rows, metrics], NaN for no value."""

    device: Device
    time: NDArray[np.float64]
    values: NDArray[np.float64]


class ReplaySource(Source):
    """The device of a trace file (CSV or Parquet), or of each such file in a folder, in the order of their names.

    Rows carry the recordings' own times. A virtual clock starts at the first row of all and runs ``speed`` times as fast as the
    wall; each tick hands over the rows whose time has come, so a late tick loses none.
    """

    name = "replay"
    regular = False

    def __init__(self, config: Config, only: frozenset[str] | None = None) -> None:
        if config.replay is None:
            raise InputError("source 'replay' has no trace to play; name one with --replay FILE")
        paths = _files(config.replay)
        names = [_uuid(path) for path in paths]
        if only is not None and not only.issuperset(names):
            raise InputError(f"source 'replay' plays {', '.join(names)}, not {', '.join(sorted(only))} alone")
        self.blanks = Counter[tuple[int, str]]()
        self._traces = [_trace(index, path) for index, path in enumerate(paths)]
        self.devices = tuple(trace.device for trace in self._traces)
        self._speed = config.speed
        self._start = min(trace.time[0] for trace in self._traces)
        self.hertz = min(max(10.0 * self._speed, LEAST_HERTZ), MOST_HERTZ)
        steps = [float(np.median(np.diff(trace.time))) for trace in self._traces if len(trace.time) > 1]
        self.interval = round(min(steps, default=0.1), 6)
        self.silent_after = max(1.0, 3 / self.hertz, 3 * max(steps, default=0.1) / self._speed)
        self.recorded_rows = max(len(trace.time) for trace in self._traces)
        self._next = [0] * len(self._traces)

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return the rows whose time has come since the last call."""
        virtual = self._start + tick.elapsed * self._speed
        rows: list[Row] = []
        for position, (_, time, values) in enumerate(self._traces):
            first, due = self._next[position], int(np.searchsorted(time, virtual, side="right"))
            rows += [Row(position, float(time[i]), values[i]) for i in range(first, due)]
            self._next[position] = max(first, due)
        self.finished = all(after == len(trace.time) for after, trace in zip(self._next, self._traces, strict=True))
        return rows

    def close(self) -> None:
        """Do nothing: the files were read whole."""


def _files(path: Path) -> list[Path]:
    """Return the trace itself, or those of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    try:
        paths = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise InputError(f"cannot read the folder of traces {path}: {error.strerror}") from error
    if not paths:
        raise InputError(f"the folder {path} holds no trace; put files there that end in {', '.join(SUFFIXES)}")
    twice = [name for name, count in Counter(map(_uuid, paths)).items() if count > 1]
    if twice:
        raise InputError(f"the folder of traces {path} has two files for {twice[0]}; rename one")
    return paths


def _uuid(path: Path) -> str:
    return f"replay-{path.stem}"


def _trace(index: int, path: Path) -> ReplayTrace:
    facts, columns = _read(path)
    time, values, names = _table(path, columns)
    known = catalog()
    metrics = tuple(
        # Slow: how often an unknown column is read is unknown too, so its newest value is kept a little longer.
        known.get(name, Metric(name, unit="", tier="slow", help=f"Column {name!r} of the replayed trace."))
        for name in names
    )
    device = Device(
        index=index,
        uuid=_uuid(path),
        name=_gpu_name(path, facts),
        source=ReplaySource.name,
        metrics=metrics,
        static=_static(path, facts),
        simulated=_simulated(path, facts),
    )
    return ReplayTrace(device, time, values)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    """Return the trace's metadata and its raw columns by name."""
    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
        return _read_parquet(path) if parquet else _read_csv(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"cannot read the trace {path}: {reason}; give a CSV or Parquet file with a column 'time'") from error


def _read_parquet(path: Path) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            f"the trace {path} is Parquet, which needs pyarrow; give the trace as CSV, or {how_to_install('analyzer')}"
        ) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise InputError(f"cannot read the trace {path} as Parquet: {str(error).splitlines()[0]}") from error
    if len(set(table.column_names)) != len(table.column_names):
        raise InputError(f"the trace {path} has two columns of the same name among {table.column_names}")
    facts = _facts(path, (table.schema.metadata or {}).get(b"epochcast", b"{}"))
    numeric = (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean)
    columns = {
        field.name: table.column(field.name).cast(pyarrow.float64(), safe=False).to_numpy()
        for field in table.schema
        if any(matches(field.type) for matches in numeric)
    }
    return facts, columns


def _read_csv(path: Path) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        facts: dict[str, Any] = {}
        comment_lines = 0
        if first.startswith("#"):
            comment_lines = 1
            text = first[1:].strip()
            facts = _facts(path, text.encode()) if text.startswith("{") else {}
        else:
            file.seek(0)
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        if len(set(header)) != len(header):
            raise InputError(f"the trace {path} has two columns of the same name in its header {','.join(header)!r}")
        rows = []
        for row in filter(None, reader):
            if len(row) != len(header):
                line = reader.line_num + comment_lines
                raise InputError(f"the trace {path}, line {line}, has {len(row)} cells where its header has {len(header)}")
            rows.append(row)
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    columns: dict[str, Sequence[Any]] = {}
    for name, column in zip(header, cells, strict=True):
        numbers = [_number(cell) for cell in column]
        filled = [number is not None for number, cell in zip(numbers, column, strict=True) if cell.strip()]
        if filled and not any(filled) and name not in TIME_NAMES:
            log.info("column %r of %s holds text and is skipped", name, path)
            continue
        for row_number, (number, cell) in enumerate(zip(numbers, column, strict=True), start=1):
            if number is None and cell.strip():
                raise InputError(f"the trace {path}, data row {row_number}, column {name!r}: {cell!r} is not a number")
        columns[name] = [math.nan if number is None else number for number in numbers]
    return facts, columns


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _facts(path: Path, text: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise InputError(f"the trace {path} has metadata that is not JSON: {error}") from error
    if not isinstance(facts, dict):
        raise InputError(f"the trace {path} has metadata that is not a JSON object")
    schema = facts.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(f"the trace {path} has the schema {schema!r}, but this agent reads {SCHEMA!r}")
    return facts


def _gpu_name(path: Path, facts: dict[str, Any]) -> str:
    name = facts.get("gpu") or "unknown"
    if not isinstance(name, str):
        raise InputError(f"the trace {path} names its gpu as {name!r}; metadata must give it as text")
    return name


def _simulated(path: Path, facts: dict[str, Any]) -> bool:
    simulated = facts.get("simulated", False)
    if not isinstance(simulated, bool):
        raise InputError(f"the trace {path} has simulated = {simulated!r}; metadata must give it as true or false")
    return simulated


def _static(path: Path, facts: dict[str, Any]) -> dict[str, Attribute]:
    static = facts.get("static") or {}
    if not isinstance(static, dict):
        raise InputError(f"the trace {path} has static attributes {static!r}; metadata must give them as an object")
    attributes = {}
    for name, fact in static.items():
        value, source = (fact.get("value"), fact.get("source", "trace")) if isinstance(fact, dict) else (fact, "trace")
        if value is None:
            continue
        unusable = isinstance(value, float) and not math.isfinite(value)  # Python's JSON reads NaN, nobody else's does
        if unusable or not isinstance(value, float | int | str) or not isinstance(source, str):
            raise InputError(
                f"the trace {path} has the static attribute {name!r} = {fact!r}, which is neither a number nor text"
            )
        attributes[name] = Attribute(value, source)
    return attributes


def _table(path: Path, columns: dict[str, Sequence[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[str, ...]]:
    """Return the times [rows], the values [rows, metrics] and the metrics' names; refuse what cannot be played."""
    time_name = next((name for name in TIME_NAMES if name in columns), None)
    if time_name is None:
        listed = ", ".join(columns) or "none"
        raise InputError(f"the trace {path} has no column 'time' (unix seconds; 't' will do); its columns: {listed}")
    time = np.asarray(columns[time_name], dtype=np.float64)
    names = tuple(name for name in columns if name != time_name)
    if not len(time):
        raise InputError(f"the trace {path} has no rows; give one with at least one sample")
    if not names:
        raise InputError(f"the trace {path} has no numeric column besides {time_name!r}; give one with at least one metric")
    if not np.isfinite(time).all():
        row = int(np.argmin(np.isfinite(time)))
        raise InputError(f"the trace {path}, data row {row + 1}, has the time {time[row]}; every row needs a finite time")
    steps = np.diff(time)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise InputError(
            f"the trace {path} is not sorted by time: data row {row + 1} at {time[row]} follows {time[row - 1]}; "
            "sort it, without repeated times"
        )
    values = np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in names])
    too_large = np.abs(values) > np.finfo(np.float32).max
    if too_large.any():
        row, column = np.argwhere(too_large)[0]
        raise InputError(
            f"the trace {path}, data row {row + 1}, column {names[column]!r}, is infinite or beyond float32 "
            f"({values[row, column]}); leave such a cell empty"
        )
    if np.isnan(values).all():
        raise InputError(f"the trace {path} holds no value: every cell except {time_name!r} is empty or NaN")
    return time, values, names
