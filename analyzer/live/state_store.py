"""What must survive a restart, in SQLite: reports of GPUs, their epochs, jobs, and what operators said of them.

The watcher writes what it finds, and the service reads it and writes jobs, at the same time (write-ahead log).
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.state_file import StateFile
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, Pulse, Report, read_report, report_json
from epochcast.regressor.profile import Profile
from epochcast.regressor.profile_json import profile_json, read_profile

log = logging.getLogger(__name__)

VERSION = 1
"""Of the tables; raised when one changes (docs/analyzer.md, "Upgrades")."""

_TABLES = """
CREATE TABLE IF NOT EXISTS gpu (uuid TEXT PRIMARY KEY, told REAL NOT NULL, by_node INTEGER NOT NULL, report TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS epoch (
    gpu TEXT NOT NULL, start REAL NOT NULL, "end" REAL NOT NULL, confidence REAL NOT NULL, job_since REAL NOT NULL,
    profile TEXT,
    PRIMARY KEY (gpu, start)
);
CREATE TABLE IF NOT EXISTS heard (
    gpu TEXT PRIMARY KEY, reported_at REAL NOT NULL, by_node INTEGER NOT NULL, last_sample REAL,
    samples INTEGER, dropped INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plan (job TEXT PRIMARY KEY, plan TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job (id TEXT PRIMARY KEY, told REAL NOT NULL, record BLOB NOT NULL);
"""
_WRITE_REPORT = "INSERT OR REPLACE INTO gpu (uuid, told, by_node, report) VALUES (?, ?, ?, ?)"
# Apart from the reports: it is written every few seconds, and they are a hundred times as long.
_WRITE_PULSE = "INSERT OR REPLACE INTO heard VALUES (?, ?, ?, ?, ?, ?)"
_DROP_EPOCH = "DELETE FROM epoch WHERE gpu = ? AND start = ?"
_WRITE_EPOCH = 'INSERT OR REPLACE INTO epoch (gpu, start, "end", confidence, job_since, profile) VALUES (?, ?, ?, ?, ?, ?)'
# Rewrites these rows at the end of the table: emptied in place, they would leave pages with holes that nothing fills.
_DROP_PROFILES = (
    'INSERT OR REPLACE INTO epoch (gpu, start, "end", confidence, job_since) '
    'SELECT gpu, start, "end", confidence, job_since FROM epoch WHERE gpu = ? AND start <= ? AND profile IS NOT NULL'
)

MOST_EPOCHS = 5000
"""Epochs kept of a GPU, of any age."""

MOST_PROFILES = 100
"""Newest epochs of a GPU that keep their profiles, nine tenths of their bytes: as many as the API lists by default."""


@dataclass(frozen=True)
class GpuChange:
    """What is new of a GPU.

    Attributes:
        report: the newest.
        epochs: that have ended since the last change, or were found again.
        instead_of: starts of stored epochs whose place these take.
        only_pulse: the report in the store differs in its pulse alone.
    """

    report: Report
    epochs: Sequence[EpochRecord] = ()
    instead_of: Sequence[float] = ()
    only_pulse: bool = False


class Heard(NamedTuple):
    """When a GPU was last reported [unix s], whether a node's analyzer did, and the pulse then; None: that of its report."""

    at: float
    by_node: bool
    pulse: Pulse | None


class StateStore:
    """The store at ``path``; every method may be called from any thread. Errors of the disk are `sqlite3.Error`."""

    def __init__(self, path: Path, *, check: bool = False) -> None:
        """Open the store, or make it.

        Args:
            path: of the file; its folder is made.
            check: check the whole file for damage, which takes seconds per GB; for the first process that opens it.

        Raises:
            InputError: the folder cannot be written, or a newer version wrote the file. One that is damaged is set aside under
                another name (and logged), and a new one begun: what it held is found again while jobs run.
        """
        self.path = path
        self._file = StateFile(path, self._prepare, check=check)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise InputError(
                f"the state {str(self.path)!r} was written by a newer Epochcast (version {version} of its tables, this one "
                f"knows {VERSION}); upgrade, or name another file"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Close it."""
        self._file.close()

    @property
    def generation(self) -> int:
        """Raised whenever an empty file has taken the place of a damaged one."""
        return self._file.generation

    @property
    def set_aside(self) -> list[Path]:
        """Damaged files that are still next to the state."""
        return self._file.set_aside

    @property
    def changes(self) -> tuple[int, int]:
        """Differs whenever another connection has written since."""
        ((version,),) = self._rows("PRAGMA data_version")
        return self._file.generation, version

    def write_gpus(self, changes: Iterable[GpuChange], *, by_node: bool = False) -> None:
        """Write what is new of some GPUs, all or nothing.

        Args:
            changes: a report takes the place of the one before it of its GPU.
            by_node: a node's analyzer reported it; its own page has the metrics of these GPUs.
        """
        now = time.time()
        reports, pulses, epochs, gone = [], [], [], []
        for change in changes:
            uuid = change.report.device.uuid
            pulses.append((uuid, now, by_node, *change.report.pulse))
            if not change.only_pulse:
                reports.append((uuid, now, by_node, json.dumps(report_json(change.report), allow_nan=False)))
            gone += [(uuid, start) for start in change.instead_of]
            epochs += [_epoch_row(uuid, epoch) for epoch in change.epochs]
        self._write((_WRITE_PULSE, pulses), (_WRITE_REPORT, reports), (_DROP_EPOCH, gone), (_WRITE_EPOCH, epochs))

    def reports(self) -> dict[str, Report]:
        """The newest report of every GPU, by UUID."""
        heard = self.heard()
        reports = {uuid: report for _, uuid, report in self.changed_reports(0) if report is not None and uuid in heard}
        return {uuid: reports[uuid].with_pulse(heard[uuid].pulse) for uuid in sorted(reports)}

    def report(self, gpu: str) -> Report | None:
        """The newest report of one GPU; None of one never seen."""
        query = "SELECT report, last_sample, samples, dropped FROM gpu JOIN heard ON uuid = gpu WHERE uuid = ?"
        for text, *pulse in self._rows(query, (gpu,)):
            report = _report(gpu, text)
            return None if report is None else report.with_pulse(_pulse(*pulse))
        return None

    def changed_reports(self, since: int) -> list[tuple[int, str, Report | None]]:
        """Number of the writing, UUID and report of every GPU whose report was written after the writing number ``since``.

        A report may lack its newest pulse. None is one that cannot be read.
        """
        # A row that is written again gets the next number, as its key is the UUID.
        rows = self._rows("SELECT rowid, uuid, report FROM gpu WHERE rowid > ? ORDER BY rowid", (since,))
        return [(number, uuid, _report(uuid, text)) for number, uuid, text in rows]

    def heard(self) -> dict[str, Heard]:
        """When and how every GPU was last reported, by UUID."""
        rows = self._rows("SELECT gpu, reported_at, by_node, last_sample, samples, dropped FROM heard ORDER BY gpu")
        return {gpu: Heard(at, bool(by_node), _pulse(*pulse)) for gpu, at, by_node, *pulse in rows}

    def epochs(self, gpu: str, *, since: float | None = None, limit: int = 1000, profiles: bool = True) -> list[EpochRecord]:
        """The newest epochs of a GPU that ended after ``since`` [unix s], oldest first, with their profiles or without."""
        rows = self._rows(
            f'SELECT start, "end", confidence, job_since, {"profile" if profiles else "NULL"} FROM epoch '
            'WHERE gpu = ? AND "end" > ? ORDER BY start DESC LIMIT ?',
            (gpu, -1e300 if since is None else since, limit),
        )
        return [
            EpochRecord(start, end, sure, job, None if profile is None else _profile(gpu, profile))
            for start, end, sure, job, profile in reversed(rows)
        ]

    def epoch_count(self, gpu: str, since: float) -> int:
        """How many epochs of a GPU began at ``since`` [unix s] or later."""
        return int(self._rows("SELECT count(*) FROM epoch WHERE gpu = ? AND start >= ?", (gpu, since))[0][0])

    def forget_older(self, seconds: float) -> None:
        """Drop GPUs not reported for so long, epochs that ended so long before their GPU's newest, and what is beyond the most.

        By the time of the samples, not the clock's: a recording may be played years later.
        """
        # GPU by GPU along the primary key: a subquery for each epoch would hold the lock for minutes.
        too_old, too_many, bare = [], [], []
        for (gpu,) in self._rows("SELECT DISTINCT gpu FROM epoch"):
            ((newest,),) = self._rows('SELECT max("end") FROM epoch WHERE gpu = ?', (gpu,))
            too_old.append((gpu, newest - seconds, newest - seconds))
            newest_starts = "SELECT start FROM epoch WHERE gpu = ? ORDER BY start DESC LIMIT 1 OFFSET ?"
            too_many += [(gpu, start) for (start,) in self._rows(newest_starts, (gpu, MOST_EPOCHS))]
            bare += [(gpu, start) for (start,) in self._rows(newest_starts, (gpu, MOST_PROFILES))]
        self._write(
            ("DELETE FROM heard WHERE reported_at < ?", [(time.time() - seconds,)]),
            ("DELETE FROM gpu WHERE uuid NOT IN (SELECT gpu FROM heard)", [()]),
            ("DELETE FROM epoch WHERE gpu NOT IN (SELECT uuid FROM gpu)", [()]),
            ('DELETE FROM epoch WHERE gpu = ? AND start < ? AND "end" < ?', too_old),
            ("DELETE FROM epoch WHERE gpu = ? AND start <= ?", too_many),
            (_DROP_PROFILES, bare),
        )

    def write_plan(self, job: str, plan: Mapping[str, Any]) -> None:
        """Keep what an operator said of a job."""
        self._write(("INSERT OR REPLACE INTO plan (job, plan) VALUES (?, ?)", [(job, json.dumps(dict(plan)))]))

    def write_jobs(self, records: Mapping[str, bytes], *, gone: Iterable[str] = ()) -> None:
        """Keep the JSON text of what was last published of these jobs; drop those that are part of another now, or too old."""
        now, left = time.time(), list(gone)
        rows = [(job, now, zlib.compress(record, 1)) for job, record in records.items()]
        self._write(
            ("INSERT OR REPLACE INTO job (id, told, record) VALUES (?, ?, ?)", rows),
            ("DELETE FROM job WHERE id = ?", [(job,) for job in left]),
            ("DELETE FROM plan WHERE job = ?", [(job,) for job in left]),
        )

    def jobs(self) -> dict[str, bytes]:
        """What was last published of each job, by id."""
        return {job: zlib.decompress(record) for job, record in self._rows("SELECT id, record FROM job")}

    def plans(self) -> dict[str, dict[str, Any]]:
        """What operators said, by job."""
        return {job: json.loads(plan) for job, plan in self._rows("SELECT job, plan FROM plan")}

    def _write(self, *statements: tuple[str, Sequence[tuple[Any, ...]]]) -> None:
        """Execute each statement with each of its rows, all in one transaction."""
        if not any(rows for _, rows in statements):
            return

        def transaction(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in statements:
                    connection.executemany(statement, rows)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk may have ended the transaction already
                    connection.execute("ROLLBACK")
                raise

        self._file.use(transaction)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._file.use(lambda connection: connection.execute(query, values).fetchall())


class StoredReports:
    """What a state has of its GPUs, of which only that is read which was written since the last time.

    Attributes:
        reports: of every GPU, by UUID, in order; the same object until another one is written, so that its pulse may be old.
        heard: when and how each of them was last reported.
    """

    def __init__(self, store: StateStore) -> None:
        """Nothing is read yet."""
        self.reports: dict[str, Report] = {}
        self.heard: dict[str, Heard] = {}
        self._store = store
        self._read_until = 0
        self._generation = store.generation

    def read(self) -> None:
        """Read what is new. Raises sqlite3.Error as the store does; then all is as before."""
        changed = self._store.changed_reports(self._read_until)
        heard = self._store.heard()  # later: a GPU whose report is there was heard
        if self._store.generation != self._generation:  # an empty file took the place of a damaged one
            self.reports, self._generation = {}, self._store.generation
            changed, heard = self._store.changed_reports(0), self._store.heard()
        known = self.reports | {uuid: report for _, uuid, report in changed}
        self._read_until = max((number for number, *_ in changed), default=self._read_until)
        self.reports = {uuid: report for uuid in heard if (report := known.get(uuid)) is not None}
        self.heard = {uuid: heard[uuid] for uuid in self.reports}
        if not self.reports:  # what is written into an empty table is counted from the beginning
            self._read_until = 0

    @property
    def newest(self) -> dict[str, Report]:
        """The reports, each with its newest pulse."""
        return {uuid: report.with_pulse(self.heard[uuid].pulse) for uuid, report in self.reports.items()}


def _epoch_row(gpu: str, epoch: EpochRecord) -> tuple[Any, ...]:
    profile = None
    if epoch.profile is not None:
        profile = zlib.compress(json.dumps(profile_json(epoch.profile), allow_nan=False).encode(), 1)
    return gpu, epoch.start, epoch.end, epoch.confidence, epoch.job_since, profile


def _profile(gpu: str, packed: bytes) -> Profile | None:
    """The profile, or None of one that another version wrote: its epoch is read all the same."""
    try:
        return read_profile(json.loads(zlib.decompress(packed)))
    except (ValueError, TypeError, zlib.error) as error:  # TypeError: another program wrote text there
        log.warning("the state's profile of an epoch of %s is skipped: %s", gpu, error)
        return None


def _pulse(last_sample: float | None, samples: int | None, dropped: int | None) -> Pulse | None:
    return None if samples is None or dropped is None else Pulse(last_sample, samples, dropped)


def _report(gpu: str, text: str) -> Report | None:
    """The report, or None of one that cannot be read: the others are read all the same."""
    try:
        return read_report(json.loads(text))
    except ValueError as error:
        log.warning("the state's report of %s is skipped: %s", gpu, error)
        return None
