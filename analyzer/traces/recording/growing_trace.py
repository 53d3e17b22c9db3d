"""A trace that is on disk while it grows, so that neither a kill nor a full disk costs what was there before."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace, trace_of_csv
from epochcast.common.files import write_whole


class _OnDisk(NamedTuple):
    """How much the file has: its first lines, and pieces and bytes in all."""

    head: bytes = b""
    pieces: int = 0
    length: int = 0


class GrowingTrace:
    """The samples of one device so far, in memory and in a CSV trace that `read_traces` reads at any moment.

    The file is ``path``, or NAME-2.csv, NAME-3.csv, … where an earlier one is there. What the disk does not take stays in
    memory until it does. ``about`` (a trace with all that is known of the device but its samples) and ``missed_ticks`` may be
    set at any time; the file has the first only. A signal that interrupts a method costs nothing: call it again.
    """

    def __init__(self, path: Path, about: Trace) -> None:
        self.about = about
        self.missed_ticks = 0
        self.path: Path | None = None
        self._wanted = path
        # Metrics, and the lines of CSV that came at once, each with the time of its last row.
        self._table: tuple[tuple[str, ...], list[tuple[float, bytes]]] = ((), [])
        self._on_disk = _OnDisk()

    def extend(self, times: Sequence[float], metrics: Mapping[str, Sequence[float | None]]) -> None:
        """Add rows: ``times`` [unix s] and each of ``metrics`` [base units, None: no value] have shape (rows,).

        Rows that are not later than the last one are left out: they are there already, or their time is wrong.
        """
        names, pieces = self._table
        if new := tuple(name for name in metrics if name not in names):
            blanks = b"," * len(new) + b"\n"
            names, pieces = (*names, *new), [(last, lines.replace(b"\n", blanks)) for last, lines in pieces]
            self._table = names, pieces
        after = self.newest
        columns = [metrics.get(name, [None] * len(times)) for name in names]
        rows = [row for row in zip(times, *columns, strict=True) if row[0] > after]
        if rows:
            pieces.append((rows[-1][0], _csv(rows)))

    @property
    def newest(self) -> float:
        """Time of the last row [unix s], -inf without any."""
        return self._table[1][-1][0] if self._table[1] else -math.inf

    def write(self) -> bool:
        """Bring to the disk what is not there yet, whole or not at all; False where that cannot be now."""
        _, pieces = self._table
        head, all_of_them = self._head(), len(pieces)
        try:
            if head != self._on_disk.head or not self._is_there():
                content = head + _joined(pieces)
                self._begin(content)
                self._on_disk = _OnDisk(head, all_of_them, len(content))
            else:
                new = _joined(pieces[self._on_disk.pieces :])
                self._append(new)
                self._on_disk = _OnDisk(head, all_of_them, self._on_disk.length + len(new))
        except (OSError, InputError):
            return False
        return True

    @property
    def unwritten(self) -> int:
        """How many rows are in memory alone."""
        return sum(lines.count(b"\n") for _, lines in self._table[1][self._on_disk.pieces :])

    def trace(self) -> Trace:
        """All rows, of which there must be one, without the metrics that have a value in none."""
        text = self._head() + _joined(self._table[1])
        frame = trace_of_csv(text.decode(), str(self._wanted)).frame
        return replace(self.about, frame=frame.dropna(axis="columns", how="all"), missed_ticks=self.missed_ticks)

    def remove(self) -> None:
        """Remove the file, once its rows are elsewhere."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()

    def _head(self) -> bytes:
        return f"# {json.dumps(self.about.metadata())}\n".encode() + _csv([("time", *self._table[0])])

    def _is_there(self) -> bool:
        """Whether the file has at least what was written to it: nobody removed it."""
        return self.path is not None and self.path.exists() and self.path.stat().st_size >= self._on_disk.length

    def _begin(self, content: bytes) -> None:
        if not self._is_there():
            self.path, self._on_disk = None, _OnDisk()
            self.path = _new_file(self._wanted)
        assert self.path is not None
        try:
            write_whole(self.path, lambda file: file.write(content))
        except InputError:
            if not self._on_disk.length:
                self.remove()
                self.path = None
            raise

    def _append(self, lines: bytes) -> None:
        assert self.path is not None
        try:
            # Opened each time: a disk in the network may say only when a file is closed that it is full.
            with self.path.open("r+b") as file:
                file.truncate(self._on_disk.length)  # a signal may have come after the last time's lines
                file.seek(self._on_disk.length)
                file.write(lines)
        except OSError:
            with suppress(OSError):
                os.truncate(self.path, self._on_disk.length)
            raise


def _new_file(path: Path, number: int = 1) -> Path:
    candidate = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
    try:
        candidate.open("xb").close()
    except FileExistsError:
        return _new_file(path, number + 1)
    return candidate


def _joined(pieces: Sequence[tuple[float, bytes]]) -> bytes:
    return b"".join(lines for _, lines in pieces)


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
