"""What was found so far, below the folder of the results: a run that was killed goes on where it was."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure, Finding, finding_json, read_finding

STORE = "findings.sqlite"
"""Its name in the folder of the results; nobody else writes into that while a run has it (`live.state_file.alone_with`)."""

_TABLE = """
CREATE TABLE IF NOT EXISTS results (trace TEXT PRIMARY KEY, version TEXT NOT NULL, failed INTEGER NOT NULL, result BLOB)
"""
_FAILURE = TypeAdapter(Failure)


class FindingsStore:
    """An SQLite file with the newest result of each trace; a finished batch is in it completely or not at all."""

    def __init__(self, path: Path) -> None:
        """Open what is there; InputError if it cannot be read or made."""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path)
        except (OSError, sqlite3.Error) as error:
            raise self._cannot_write(error) from error
        self._write(_TABLE, [()])

    def version(self, trace: str) -> str | None:
        """Of what was found in this trace; None where nothing was, or it failed."""
        row = self._file.execute("SELECT version FROM results WHERE trace = ? AND NOT failed", (trace,)).fetchone()
        return None if row is None else str(row[0])

    def add(self, results: Sequence[Finding | Failure]) -> None:
        """Write a finished batch; InputError if that is not possible."""
        rows = [
            (result.trace, result.version, True, zlib.compress(_FAILURE.dump_json(result), 1))
            if isinstance(result, Failure)
            else (result.trace, result.version, False, zlib.compress(finding_json(result), 1))
            for result in results
        ]
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", rows)

    def keep(self, traces: Iterable[str]) -> None:
        """Forget what is not among these."""
        gone = {trace for (trace,) in self._file.execute("SELECT trace FROM results")}.difference(traces)
        self._write("DELETE FROM results WHERE trace = ?", [(trace,) for trace in gone])

    def findings(self) -> Iterator[Finding]:
        """What was found, in the order of the traces' names."""
        return (read_finding(text) for text in self._stored(failed=False))

    def failures(self) -> Iterator[Failure]:
        """What failed, in the order of the traces' names."""
        return (_FAILURE.validate_json(text) for text in self._stored(failed=True))

    def _stored(self, *, failed: bool) -> Iterator[bytes]:
        for (result,) in self._file.execute("SELECT result FROM results WHERE failed = ? ORDER BY trace", (failed,)):
            yield zlib.decompress(result)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            with self._file:
                self._file.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: Exception) -> InputError:
        remedy = "delete the file, and all is analysed again" if type(error) is sqlite3.DatabaseError else "name another folder"
        return InputError(f"cannot write {str(self._path)!r}: {getattr(error, 'strerror', None) or error}; {remedy}")
