"""What was found so far, below the folder of the results: a run that was killed goes on where it was.

Each finished batch is a part file of its own, complete or absent. A part never changes: if a trace is
in several parts, the newest counts.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure, Finding, finding_from_json, finding_to_json
from epochcast.common.files import write_whole

log = logging.getLogger(__name__)

_SCHEMA = pa.schema([("trace", pa.string()), ("version", pa.string()), ("failed", pa.bool_()), ("told", pa.string())])
_KEYS = ["trace", "version", "failed"]

# Parts are of traces whose names follow each other, mostly: in the order of names few are read at a time.
_HELD_PARTS = 8


class _Place(NamedTuple):
    """Where a trace is stored: its version, whether it failed, the part's number and the row in it."""

    version: str
    failed: bool
    part: int
    row: int


class FindingsStore:
    """The parts of a run, and where each trace is stored."""

    def __init__(self, out: Path) -> None:
        """Open what is there; InputError if the folder cannot be made or read."""
        self._folder = out / "parts"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write into {str(out)!r}: {error.strerror}; name another folder") from error
        self._places: dict[str, _Place] = {}
        self._parts: OrderedDict[int, list[str]] = OrderedDict()
        self._next = 0
        for path in sorted(self._folder.glob("[0-9]*.parquet")):
            if path.stem.isdecimal():  # not somebody's copy of one
                self._open(path)

    def version(self, trace: str) -> str | None:
        """Of what was found in this trace; None where nothing was, or it failed."""
        place = self._places.get(trace)
        return None if place is None or place.failed else place.version

    def add(self, results: Sequence[Finding | Failure]) -> None:
        """Write a finished batch; InputError if that is not possible."""
        if not results:
            return
        table = pa.Table.from_pylist([_row(result) for result in results], schema=_SCHEMA)
        number = self._next
        write_whole(self._path(number), lambda file: pq.write_table(table, file, compression="zstd"))
        self._next += 1
        self._index(number, table)

    def keep(self, traces: Iterable[str]) -> None:
        """Forget what is not among these."""
        wanted = set(traces)
        self._places = {trace: place for trace, place in self._places.items() if trace in wanted}

    def findings(self) -> Iterator[Finding]:
        """What was found, in the order of the traces' names."""
        return (finding_from_json(json.loads(text)) for text in self._stored(failed=False))

    def failures(self) -> Iterator[Failure]:
        """What failed, in the order of the traces' names."""
        return (Failure(**json.loads(text)) for text in self._stored(failed=True))

    def _stored(self, *, failed: bool) -> Iterator[str]:
        for trace in sorted(self._places):
            place = self._places[trace]
            if place.failed == failed:
                yield self._part(place.part)[place.row]

    def _part(self, number: int) -> list[str]:
        if number not in self._parts:
            self._parts[number] = _read(self._path(number), ["told"])["told"].to_pylist()
            if len(self._parts) > _HELD_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(number)
        return self._parts[number]

    def _open(self, path: Path) -> None:
        number = int(path.stem)
        self._next = max(self._next, number + 1)
        try:
            table = _read(path, _KEYS)
        except (OSError, pa.ArrowException) as error:  # its traces are analysed again
            log.warning("the part %s cannot be read, so its traces are analysed again: %s", path, error)
            return
        self._index(number, table)

    def _index(self, number: int, table: pa.Table) -> None:
        for row, key in enumerate(table.select(_KEYS).to_pylist()):
            self._places[key["trace"]] = _Place(key["version"], key["failed"], number, row)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.parquet"


def _read(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a part; without the threads that `pq.read_table` wakes for each of thousands of small files."""
    with pq.ParquetFile(path) as file:
        return file.read(columns, use_threads=False)


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep other runs out of this folder; InputError if one is there already."""
    lock = FileLock(out / ".lock")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"another run is writing into {str(out)!r}; wait for it, or name another folder") from None
    except OSError as error:
        raise InputError(f"cannot write into {str(out)!r}: {error.strerror or error}; name another folder") from error
    try:
        yield
    finally:
        lock.release()


def _row(result: Finding | Failure) -> dict[str, Any]:
    failed = isinstance(result, Failure)
    fields = vars(result) if isinstance(result, Failure) else finding_to_json(result)
    return {"trace": result.trace, "version": result.version, "failed": failed, "told": json.dumps(fields)}
