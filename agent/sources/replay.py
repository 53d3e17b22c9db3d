"""A recorded trace, or a folder of them, played as if it happened now, at any speed."""

import csv
import json
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

TIME_NAMES = ("time", "t")
# Files of a folder that are taken for traces.
SUFFIXES = (".csv", ".parquet", ".pq")
# Above this many ticks a second a tick hands over several rows instead: a faster thread would only burn CPU.
MOST_HERTZ = 100.0
# However slow the replay: the first row is due within a second, and health sees that the sampler lives.
LEAST_HERTZ = 1.0


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
        name=str(facts.get("gpu") or "unknown"),
        source=ReplaySource.name,
        metrics=metrics,
        static=_static(facts.get("static")),
        simulated=bool(facts.get("simulated")),
    )
    return ReplayTrace(device, time, values)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
    """Return the trace's metadata and its cells by column."""
    try:
        with path.open("rb") as file:
            parquet = file.read(4) == b"PAR1"
        text, names, columns = _read_parquet(path) if parquet else _read_csv(path)
        # NaN and infinity, which only Python's JSON knows, are no values.
        facts = json.loads(text, parse_constant=lambda _: None) if text.lstrip().startswith("{") else {}
    except ImportError as error:
        raise InputError(
            f"the trace {path} is Parquet, which needs pyarrow; give the trace as CSV, or {how_to_install('analyzer')}"
        ) from error
    except (OSError, ValueError, NotImplementedError, csv.Error) as error:  # pyarrow has ValueError and NotImplementedError
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"cannot read the trace {path}: {reason}; give a CSV or Parquet file with a column 'time'") from error
    if len(set(names)) != len(names):
        raise InputError(f"the trace {path} has two columns of the same name among {', '.join(names)}")
    return facts, dict(zip(names, columns, strict=True))


def _read_parquet(path: Path) -> tuple[str, list[str], list[Sequence[Any]]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    text = (table.schema.metadata or {}).get(b"epochcast", b"")
    return text.decode(), table.column_names, [column.to_pylist() for column in table.columns]


def _read_csv(path: Path) -> tuple[str, list[str], list[Sequence[Any]]]:
    # Not by pandas: the agent's container image has none.
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        if not first.startswith("#"):
            file.seek(0)
        header, *rows = [*filter(None, csv.reader(file))] or [[]]
    if wrong := next((row for row in rows if len(row) != len(header)), None):
        raise ValueError(f"a row has {len(wrong)} cells where the header has {len(header)}")
    text = first[1:] if first.startswith("#") else ""
    return text, [name.strip() for name in header], list(zip(*rows, strict=True)) or [()] * len(header)


def _static(static: object) -> dict[str, Attribute]:
    attributes = {}
    for name, fact in static.items() if isinstance(static, dict) else ():
        value, source = (fact.get("value"), fact.get("source")) if isinstance(fact, dict) else (fact, None)
        if isinstance(value, float | int | str):
            attributes[name] = Attribute(value, str(source or "trace"))
    return attributes


def _table(path: Path, columns: dict[str, Sequence[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[str, ...]]:
    """Return the times [rows], the values [rows, metrics] and the metrics' names; refuse what cannot be played."""
    time_name = next((name for name in TIME_NAMES if name in columns), None)
    if time_name is None:
        listed = ", ".join(columns) or "none"
        raise InputError(f"the trace {path} has no column 'time' (unix seconds; 't' will do); its columns: {listed}")
    numbers = {name: list(map(_number, cells)) for name, cells in columns.items()}
    for name, column in numbers.items():
        # A column without any number, as one of labels, is left out.
        numeric = any(number is not None and not math.isnan(number) for number in column)
        if None in column and (numeric or name == time_name):
            row = column.index(None)
            raise InputError(f"the trace {path}, data row {row + 1}, column {name!r}: {columns[name][row]!r} is not a number")
    time = np.array(numbers.pop(time_name), dtype=np.float64)
    names = tuple(name for name, column in numbers.items() if None not in column)
    if not len(time) or not names:
        raise InputError(f"the trace {path} has no rows with numbers besides {time_name!r}; give one with at least one sample")
    wrong = ~(np.isfinite(time) & (np.diff(time, prepend=-np.inf) > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"the trace {path} is not sorted by time: data row {row + 1} is of {time[row]}; "
            "sort it, without repeated or missing times"
        )
    return time, np.array([numbers[name] for name in names], dtype=np.float64).T, names


def _number(cell: Any) -> float | None:
    """Return a cell as a number, NaN for an empty one; None for what is not a number."""
    try:
        return float(cell) if str(cell).strip() and cell is not None else math.nan
    except (TypeError, ValueError):
        return None
