"""Stretches of work of a whole fleet in the order in which they began: kept in a file, for there may be millions."""

from __future__ import annotations

import pickle
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from epochcast.analyzer.fleet.finding import JobSpan
from epochcast.analyzer.jobs.rhythm import Rhythm
from epochcast.analyzer.telemetry.gpu_report import Report

_TABLE = """
CREATE TABLE spans (
    number INTEGER PRIMARY KEY, since REAL NOT NULL, uuid TEXT NOT NULL, node TEXT NOT NULL, trace TEXT NOT NULL,
    end REAL NOT NULL, epochs INTEGER NOT NULL, busy_ratio REAL, energy_j REAL, memory_bytes REAL,
    light BLOB NOT NULL, rest BLOB NOT NULL,
    UNIQUE (since, uuid)
)"""
# Of two traces of one stretch (a copy, say) the first by name is kept, in any order of arrival.
_ADD = """
INSERT INTO spans (since, uuid, node, trace, end, epochs, busy_ratio, energy_j, memory_bytes, light, rest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (since, uuid) DO UPDATE SET
    node = excluded.node, trace = excluded.trace, end = excluded.end, epochs = excluded.epochs,
    busy_ratio = excluded.busy_ratio, energy_j = excluded.energy_j, memory_bytes = excluded.memory_bytes,
    light = excluded.light, rest = excluded.rest
WHERE excluded.trace < spans.trace"""


@dataclass(frozen=True)
class FleetSpan:
    """One stretch, with what deciding on its job takes.

    Attributes:
        number: by which `SpansByStart.full_report` finds all of its report.
        trace: that it is in.
        end: unix seconds.
        epochs: of it, all.
        busy_ratio, energy_j, memory_bytes, rhythm: as in `JobSpan`.
        report: of it, without profile and static attributes.
    """

    number: int
    trace: str
    end: float
    epochs: int
    busy_ratio: float | None
    energy_j: float | None
    memory_bytes: float | None
    rhythm: Rhythm | None
    report: Report

    @property
    def since(self) -> float:
        """Unix seconds of its beginning."""
        return self.report.job_since or 0.0

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.since


class SpansByStart:
    """Takes stretches in any order and gives them back by their beginning; the file is gone afterwards.

    Attributes:
        added: how many were put in.
    """

    def __init__(self, path: Path) -> None:
        """Begin with an empty file; one that a run left behind is replaced."""
        self.added = 0
        self._path = path
        path.unlink(missing_ok=True)
        self._file = sqlite3.connect(path)
        # The file does not outlive this run, so it need not be durable.
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute(_TABLE)

    def __enter__(self) -> SpansByStart:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close and delete the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __len__(self) -> int:
        """How many different ones there are."""
        return int(self._file.execute("SELECT count(*) FROM spans").fetchone()[0])

    def add(self, trace: str, span: JobSpan) -> None:
        """Put one in."""
        report = replace(span.report, job_since=span.start)
        light = replace(report, profile=None, device=replace(report.device, static={}))
        rest = report.profile, report.device.static
        row = (span.start, report.device.uuid, report.device.node, trace, span.end, len(span.epochs))
        measured = (span.busy_ratio, span.energy_j, span.memory_bytes)
        self._file.execute(_ADD, (*row, *measured, _packed((span.rhythm, light)), _packed(rest)))
        self.added += 1

    def __iter__(self) -> Iterator[FleetSpan]:
        """All, the earliest first; of equals by UUID."""
        rows = self._file.execute(
            "SELECT number, trace, end, epochs, busy_ratio, energy_j, memory_bytes, light FROM spans ORDER BY since, uuid"
        )
        for *columns, light in rows:
            yield FleetSpan(*columns, *_unpacked(light))

    def shared_nodes(self) -> set[str]:
        """Nodes of which more than one GPU worked."""
        rows = self._file.execute("SELECT node FROM spans GROUP BY node HAVING count(DISTINCT uuid) > 1")
        return {str(node) for (node,) in rows}

    def full_report(self, span: FleetSpan) -> Report:
        """All of its report."""
        packed = self._file.execute("SELECT rest FROM spans WHERE number = ?", (span.number,)).fetchone()[0]
        profile, static = _unpacked(packed)
        return replace(span.report, profile=profile, device=replace(span.report.device, static=static))


def _packed(what: Any) -> bytes:
    """As a pickle, a tenth of the time that JSON takes: nobody else writes into this file, and it is not kept."""
    return zlib.compress(pickle.dumps(what, pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed))  # noqa: S301 - of this process
