"""Stretches of work of a whole fleet in the order in which they began: in a temporary file, for there may be millions."""

from __future__ import annotations

import pickle
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from epochcast.analyzer.fleet.finding import JobSpan
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS

_TABLE = """
CREATE TABLE spans (
    since REAL NOT NULL, uuid TEXT NOT NULL, node TEXT NOT NULL, trace TEXT NOT NULL, light BLOB NOT NULL, rest BLOB NOT NULL,
    PRIMARY KEY (since, uuid)
)"""
# Of two traces of one stretch (a copy, say) the first by name is kept, in any order of arrival.
_ADD = """
INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (since, uuid) DO UPDATE SET
    node = excluded.node, trace = excluded.trace, light = excluded.light, rest = excluded.rest
WHERE excluded.trace < spans.trace"""


class SpansByStart:
    """Takes stretches in any order and gives them back by their beginning. Errors of the disk are `sqlite3.Error`.

    Attributes:
        added: how many were put in.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.added = 0
        self._file = sqlite3.connect("")  # a temporary file of SQLite's, which goes with the connection
        self._file.execute(_TABLE)

    def __len__(self) -> int:
        """How many different ones there are."""
        return int(self._file.execute("SELECT count(*) FROM spans").fetchone()[0])

    def add(self, span: JobSpan) -> None:
        """Put one in."""
        device = span.report.device
        report = replace(span.report, profile=None, device=replace(device, static={}), epochs=span.epochs[-MOST_EPOCHS:])
        light, rest = replace(span, epochs=(), report=report), (span.report.profile, device.static)
        self._file.execute(_ADD, (span.start, device.uuid, device.node, span.trace, _packed(light), _packed(rest)))
        self.added += 1

    def __iter__(self) -> Iterator[JobSpan]:
        """All, the earliest first; of equals by UUID.

        They have what deciding on their jobs takes: reports with their newest epochs, without profile and static attributes.
        """
        for (light,) in self._file.execute("SELECT light FROM spans ORDER BY since, uuid"):
            yield _unpacked(light)

    def shared_nodes(self) -> set[str]:
        """Nodes of which more than one GPU worked."""
        rows = self._file.execute("SELECT node FROM spans GROUP BY node HAVING count(DISTINCT uuid) > 1")
        return {str(node) for (node,) in rows}

    def whole(self, span: JobSpan) -> JobSpan:
        """The same with all of its report."""
        device = span.report.device
        query = "SELECT rest FROM spans WHERE since = ? AND uuid = ?"
        profile, static = _unpacked(self._file.execute(query, (span.start, device.uuid)).fetchone()[0])
        return replace(span, report=replace(span.report, profile=profile, device=replace(device, static=static)))


def _packed(what: Any) -> bytes:
    """As a pickle, a tenth of the time that JSON takes: nobody else writes into this file, and it is not kept."""
    return zlib.compress(pickle.dumps(what, pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed))  # noqa: S301 - of this process
