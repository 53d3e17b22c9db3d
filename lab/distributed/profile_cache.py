"""Operator times kept on disk from one run to the next, by device, software and operator."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from epochcast.analyzer.backends.cache_folder import cache_folder
from epochcast.analyzer.backends.convmeter.measurement.device import Timing
from epochcast.analyzer.errors import InputError

_TABLE = """CREATE TABLE IF NOT EXISTS operator_times (
    device TEXT NOT NULL, operator TEXT NOT NULL, seconds REAL NOT NULL, iqr REAL NOT NULL, rounds INTEGER NOT NULL,
    PRIMARY KEY (device, operator)) WITHOUT ROWID"""
_WAIT_SECONDS = 30.0
_AT_ONCE = 500  # SQLite takes a limited number of parameters


def cache_path() -> Path:
    """``epochcast/operator_times.sqlite`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    return cache_folder() / "operator_times.sqlite"


class ProfileCache:
    """A table of timings in one SQLite file; several processes may use it at once.

    A file that is damaged is renamed to ``….damaged`` with a sentence on stderr, and a new one begun.

    Args:
        path: of the file; its folder is made if need be.

    Raises:
        InputError: the file can neither be opened nor made.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_path()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._open()):
                pass
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"cannot keep operator times in {str(self.path)!r}: {error}; set XDG_CACHE_HOME to a writable folder"
            ) from error

    def get(self, device: str, operators: Iterable[str]) -> dict[str, Timing]:
        """What is known of these operators on that device, by operator; rows that are no times are left out."""
        keys, timings = list(operators), {}
        with closing(self._open()) as database:
            for begin in range(0, len(keys), _AT_ONCE):
                some = keys[begin : begin + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(
                    f"SELECT operator, seconds, iqr, rounds FROM operator_times WHERE device = ? AND operator IN ({marks})",
                    (device, *some),
                )
                timings.update({row[0]: Timing(*row[1:]) for row in rows if isinstance(row[1], float) and row[1] > 0})
        return timings

    def put(self, device: str, timings: Mapping[str, Timing]) -> None:
        """Keep timings by operator; an older one of the same operator is replaced."""
        rows = [(device, operator, timing.seconds, timing.iqr, timing.rounds) for operator, timing in timings.items()]
        with closing(self._open()) as database, database:
            database.executemany("INSERT OR REPLACE INTO operator_times VALUES (?, ?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        try:
            return self._checked()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, no permission, disk full: the file is not at fault
                raise
            aside = self.path.with_name(f"{self.path.name}.{time.time_ns()}.damaged")
            self.path.rename(aside)
            sys.stderr.write(f"epochcast: the operator times in {self.path} are damaged ({error}); kept as {aside.name}\n")
            return self._checked()

    def _checked(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
        try:
            database.execute(_TABLE)
            columns = [row[1] for row in database.execute("PRAGMA table_info(operator_times)")]
            if columns != ["device", "operator", "seconds", "iqr", "rounds"]:
                raise sqlite3.DatabaseError(f"its columns are {', '.join(columns)}")
            database.execute("SELECT operator FROM operator_times LIMIT 1").fetchall()
        except BaseException:
            database.close()
            raise
        return database
