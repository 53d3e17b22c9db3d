"""What must survive a restart, in SQLite: reports of GPUs, their epochs, how the sources are, and what operators said of jobs.

One process writes (the watcher), others read at the same time (write-ahead log). The file is the only interface between the
watcher and the service.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .report import EpochRecord, Report, epoch_from_json, epoch_to_json

log = logging.getLogger(__name__)

VERSION = 1
"""Of the tables; raised when one changes (docs/analyzer.md, "Upgrades")."""

_TABLES = """
CREATE TABLE IF NOT EXISTS gpu (uuid TEXT PRIMARY KEY, told REAL NOT NULL, report TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS epoch (
    gpu TEXT NOT NULL, start REAL NOT NULL, "end" REAL NOT NULL, job_since REAL NOT NULL, epoch TEXT NOT NULL,
    PRIMARY KEY (gpu, start)
);
CREATE TABLE IF NOT EXISTS source (kind TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, PRIMARY KEY (kind, name));
CREATE TABLE IF NOT EXISTS plan (job TEXT PRIMARY KEY, plan TEXT NOT NULL);
"""
_BUSY_S = 5.0  # a reader or writer waits so long for another


class StateStore:
    """The store at ``path``; every method may be called from any thread. Errors of the disk are `sqlite3.Error`."""

    def __init__(self, path: Path) -> None:
        """Open the store, or make it.

        Raises:
            InputError: the folder cannot be written, or a newer version wrote the file. A file that is no database is set aside
                under another name (and logged), and a new one begun: what it held is found again while jobs run.
        """
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._opened()
        except sqlite3.OperationalError as error:
            raise InputError(f"the state {str(path)!r} cannot be opened ({error}); name a file that can be written") from error
        except OSError as error:
            raise InputError(f"the state {str(path)!r} cannot be written: {error.strerror}; name another file") from error
        except sqlite3.DatabaseError as error:
            aside = path.with_name(f"{path.name}.broken-{int(time.time())}")
            log.error("the state %s is no database (%s): set aside as %s", path, error, aside.name)
            path.replace(aside)
            self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            connection.close()
            raise InputError(
                f"the state {str(self.path)!r} was written by a newer Epochcast (version {version} of its tables, this one "
                f"knows {VERSION}); upgrade, or name another file"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        return connection

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._connection.close()

    @property
    def changes(self) -> int:
        """A number that differs whenever another connection has written since."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def write_reports(self, reports: Iterable[Report]) -> None:
        """Put each report in the place of the one before it of its GPU."""
        now = time.time()
        rows = [(one.device.uuid, now, json.dumps(one.to_json(), allow_nan=False)) for one in reports]
        self._write("INSERT OR REPLACE INTO gpu (uuid, told, report) VALUES (?, ?, ?)", rows)

    def reports(self) -> dict[str, Report]:
        """The newest report of every GPU ever seen, by UUID."""
        return {
            uuid: Report.from_json(json.loads(text)) for uuid, text in self._rows("SELECT uuid, report FROM gpu ORDER BY uuid")
        }

    def write_epochs(self, gpu: str, epochs: Sequence[EpochRecord], *, instead_of: Sequence[float] = ()) -> None:
        """Add epochs of a GPU; those that begin at ``instead_of`` were found again, better, and go."""
        self._write("DELETE FROM epoch WHERE gpu = ? AND start = ?", [(gpu, start) for start in instead_of])
        rows = [(gpu, one.start, one.end, one.job_since, json.dumps(epoch_to_json(one), allow_nan=False)) for one in epochs]
        self._write('INSERT OR REPLACE INTO epoch (gpu, start, "end", job_since, epoch) VALUES (?, ?, ?, ?, ?)', rows)

    def epochs(self, gpu: str, *, since: float | None = None, limit: int = 1000) -> list[EpochRecord]:
        """The newest epochs of a GPU that ended after ``since`` [unix s], oldest first, with their profiles."""
        rows = self._rows(
            'SELECT epoch FROM epoch WHERE gpu = ? AND "end" > ? ORDER BY start DESC LIMIT ?',
            (gpu, -1e300 if since is None else since, limit),
        )
        return [epoch_from_json(json.loads(text)) for (text,) in reversed(rows)]

    def forget_before(self, moment: float) -> None:
        """Drop epochs that ended before ``moment`` [unix s], and GPUs that were last told of before it."""
        self._write('DELETE FROM epoch WHERE "end" < ?', [(moment,)])
        self._write("DELETE FROM gpu WHERE told < ?", [(moment,)])

    def write_source(self, kind: str, name: str, status: Mapping[str, Any]) -> None:
        """Keep how a telemetry source is: JSON values, see `watcher.SourceStatus`."""
        self._write(
            "INSERT OR REPLACE INTO source (kind, name, status) VALUES (?, ?, ?)", [(kind, name, json.dumps(dict(status)))]
        )

    def sources(self) -> list[dict[str, Any]]:
        """How each source is; what `write_source` was given, with ``kind`` and ``name``."""
        rows = self._rows("SELECT kind, name, status FROM source ORDER BY kind, name")
        return [{"kind": kind, "name": name, **json.loads(status)} for kind, name, status in rows]

    def write_plan(self, job: str, plan: Mapping[str, Any]) -> None:
        """Keep what an operator said of a job."""
        self._write("INSERT OR REPLACE INTO plan (job, plan) VALUES (?, ?)", [(job, json.dumps(dict(plan)))])

    def plans(self) -> dict[str, dict[str, Any]]:
        """What operators said, by job."""
        return {job: json.loads(plan) for job, plan in self._rows("SELECT job, plan FROM plan")}

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()
