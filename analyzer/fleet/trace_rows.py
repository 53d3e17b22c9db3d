"""The rows of a trace file, and of one stretch of work, in pieces: a year of them needs no more memory than ten minutes.

What `trace.read_trace` refuses is refused here too, but for times that go back: of a fleet's many clocks some are set now and
then, and what comes before the newest row is left out and counted."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.thinned_samples import ThinnedSamples
from epochcast.analyzer.traces.csv_text import decoded, numeric_column, one_line
from epochcast.analyzer.traces.trace import PANDAS_INDEX, PARQUET_KEY, parse_metadata, trace_of_csv

Array = NDArray[np.float64]

MOST_CSV_BYTES = 2**28
"""A CSV text is parsed whole, which takes several times its size; compressed it is measured as it expands."""

# Rows that are decoded at once, and values up to which they are, and a trace is held once it was read: 60 MB.
_PIECE_ROWS = 65_536
_HELD_VALUES = 7_500_000

# The year 5138: times in milliseconds are beyond. One such trace would make the fleet's hours meaningless.
_LATEST = 1e11

# What no hardware reads (an error code, say) is no reading; as `live.gpu_watch` has it.
_LARGEST = 1e18


@dataclass(frozen=True)
class Piece:
    """Some rows: ``time`` (n,) unix seconds, ascending; ``values`` metric -> (n,) base units, NaN where there is no reading."""

    time: Array
    values: Mapping[str, Array]


@dataclass
class Late:
    """Rows that were left out since they are no later than one before them: how many, and how far back [s] at most."""

    rows: int = 0
    seconds: float = 0.0
    newest: float = field(default=-np.inf, repr=False)

    def without(self, piece: Piece) -> Piece:
        """The rest of the piece; they are counted."""
        time = piece.time
        if not time.size:
            return piece
        before = np.maximum.accumulate(np.concatenate([[self.newest], time]))
        self.newest = float(before[-1])
        later = time > before[:-1]
        if later.all():
            return piece
        self.rows += int((~later).sum())
        self.seconds = max(self.seconds, float((before[:-1] - time)[~later].max()))
        return Piece(time[later], {name: values[later] for name, values in piece.values.items()})


class TraceRows:
    """A trace that can be gone through more than once.

    Attributes:
        names: of its metric columns.
        metadata: of the trace, with all of `trace.parse_metadata`'s keys.
        late: rows left out, known once it was gone through.
    """

    def __init__(self, file: BinaryIO, name: str, only: Container[str] | None = None) -> None:
        """Open a trace of ``name`` (whose suffix gives the format), with these metrics ``only``; InputError if it is none."""
        self.late = Late()
        self._name, self._only = name, only
        self._held: list[Piece] | None = None
        lower = name.lower()
        if lower.endswith((".parquet", ".pq")):
            self._open_parquet(file)
        else:
            trace = trace_of_csv(_text(file, name, compressed=lower.endswith(".gz")), name)
            self.metadata = trace.metadata()
            self._time_name, self.names = self._columns(["time", *trace.metric_names])
            self._held = [self._checked(trace.time, trace.metrics(self.names))]

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[Piece]:
        """All rows, with the named metrics; None: all of them.

        Raises:
            InputError: a time or a metric that is none, or a file that cannot be read on.
        """
        late, wanted = Late(), self.names if names is None else names
        for piece in self._decoded(wanted) if self._held is None else self._held:
            yield late.without(Piece(piece.time, {name: piece.values[name] for name in wanted}))
        self.late = late

    def _decoded(self, names: Sequence[str]) -> Iterator[Piece]:
        rows = max(1, min(_PIECE_ROWS, _HELD_VALUES // (len(names) + 1)))
        try:
            for batch in self._parquet.iter_batches(rows, columns=[self._time_name, *names], use_threads=False):
                yield self._piece(batch)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self._name!r} is not a readable Parquet file: {one_line(error)}") from error

    def _open_parquet(self, file: BinaryIO) -> None:
        try:
            self._parquet = pq.ParquetFile(file, pre_buffer=False)
            schema = self._parquet.schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self._name!r} is not a readable Parquet file: {one_line(error)}") from error
        self.metadata = parse_metadata((schema.metadata or {}).get(PARQUET_KEY), self._name)
        self._time_name, self.names = self._columns([column for column in schema.names if not PANDAS_INDEX.fullmatch(column)])
        if self._parquet.metadata.num_rows * (len(self.names) + 1) <= _HELD_VALUES:
            self._held = list(self._decoded(self.names))

    def _columns(self, columns: list[str]) -> tuple[str, tuple[str, ...]]:
        time = next((column for column in ("time", "t") if column in columns), None)
        if time is None:
            raise InputError(f"{self._name!r} has no column 'time' (or 't'); it has {', '.join(columns[:8])}")
        if len(set(columns)) < len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            raise InputError(f"{self._name!r} has more than one column {twice!r}; give every metric its own name")
        return time, tuple(column for column in columns if column != time and (self._only is None or column in self._only))

    def _piece(self, batch: Any) -> Piece:
        values = {name: self._numbers(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        return self._checked(values.pop(self._time_name), values)

    def _numbers(self, name: str, column: Any) -> Array:
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            if not np.isinf(values).any():
                return values
        # Slower, and says which value is wrong.
        return numeric_column(pd.Series(column.to_pandas()), name, self._name).to_numpy()

    def _checked(self, time: Array, values: Mapping[str, Array]) -> Piece:
        if not np.isfinite(time).all():
            raise InputError(f"{self._name!r} has a row without a valid time; give every row a time in unix seconds")
        if (np.abs(time) > _LATEST).any():
            seen = float(time[np.abs(time) > _LATEST][0])
            raise InputError(f"{self._name!r} holds the time {seen:.6g}; times are unix seconds, not milliseconds")
        return Piece(time, {name: _readings(column) for name, column in values.items()})


def _readings(column: Array) -> Array:
    beyond = np.abs(column) > _LARGEST
    return np.where(beyond, np.nan, column) if beyond.any() else column


def _text(file: BinaryIO, name: str, *, compressed: bool) -> str:
    try:
        raw = gzip.GzipFile(fileobj=file).read(MOST_CSV_BYTES + 1) if compressed else file.read(MOST_CSV_BYTES + 1)
        if len(raw) > MOST_CSV_BYTES:
            most = MOST_CSV_BYTES // 2**20
            raise InputError(
                f"{name!r} holds more than {most} MiB of CSV, which is too much to read at once; convert it to Parquet"
            )
        return decoded(raw, name)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {one_line(error)}") from error


MOST_ROWS = 144_000
"""Rows of a stretch that are analysed as they are: four hours at 10 Hz."""

# Of a longer one the detector sees at most so large a share of them, as means: of slow samples it makes several of its own. A
# stretch of two days at 10 Hz took 1.8 GB with as many means as rows.
_MEANS = 1 / 2


class SpanRows:
    """Collects the rows from ``start`` to ``end`` [unix s], both included.

    Where there are too many, the detector gets the mean of every few in a row, and the profile an even sample of them all
    (`ThinnedSamples`): a mean would hide how much a metric varies.

    Attributes:
        thinned: of so many rows one is left.
    """

    def __init__(self, start: float, end: float, rows: int) -> None:
        """Start empty; ``rows``: about how many will come."""
        self.start, self.end = start, end
        self.thinned = 1 if rows <= MOST_ROWS else math.ceil(rows / (_MEANS * MOST_ROWS))
        self._pieces: list[Piece] = []
        self._waiting: Piece | None = None  # less than a block
        self._sample = ThinnedSamples() if self.thinned > 1 else None

    def add(self, piece: Piece) -> None:
        """Add the rows that are inside."""
        first, last = np.searchsorted(piece.time, [self.start, np.nextafter(self.end, np.inf)])
        if first == last:
            return
        inside = Piece(piece.time[first:last], {name: values[first:last] for name, values in piece.values.items()})
        if self._sample is None:
            self._pieces.append(inside)
            return
        self._sample.append(inside.time, inside.values)
        joined = inside if self._waiting is None else _joined([self._waiting, inside])
        blocks = joined.time.size // self.thinned * self.thinned
        self._waiting = Piece(joined.time[blocks:], {name: values[blocks:] for name, values in joined.values.items()})
        if blocks:
            means = {name: _block_means(values[:blocks].reshape(-1, self.thinned)) for name, values in joined.values.items()}
            self._pieces.append(Piece(joined.time[self.thinned - 1 : blocks : self.thinned].copy(), means))

    def for_detector(self) -> Piece:
        """All rows, or means of a few each, stamped with the last of them; empty if none came."""
        return _joined(self._pieces) if self._pieces else Piece(np.empty(0), {})

    def for_profile(self) -> tuple[Array, Mapping[str, Array]]:
        """All rows, or an even sample: ``time`` (n,), metric -> (n,)."""
        if self._sample is not None:
            return self._sample.job()
        rows = self.for_detector()
        return rows.time, rows.values


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    names = pieces[0].values
    return Piece(
        np.concatenate([piece.time for piece in pieces]),
        {name: np.concatenate([piece.values[name] for piece in pieces]) for name in names},
    )


def _block_means(blocks: Array) -> Array:
    """The mean of the readings in each row of ``blocks``, NaN where it has none."""
    read = ~np.isnan(blocks)
    counted = read.sum(axis=1)
    sums = np.where(read, blocks, 0.0).sum(axis=1)
    return np.asarray(np.divide(sums, counted, out=np.full(counted.size, np.nan), where=counted > 0))
