"""A table of measurements on the disk, which grows by a row at a time and survives being stopped at any moment."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole


class GrowingTable:
    """A CSV file, begun or continued; a last line that was not finished is dropped.

    Args:
        path: of the file.
        header: its columns.
        place: what is the same in all rows, by column, such as the device.
        identity: columns whose values identify a row.

    Attributes:
        rows: in the file.

    Raises:
        InputError: the file holds something else or points of another place, or cannot be written.
    """

    def __init__(self, path: Path, header: Sequence[str], place: Mapping[str, str], identity: Sequence[str]) -> None:
        if path.suffix == ".gz":
            raise InputError(f"cannot write to {str(path)!r} row by row; name a plain .csv file and compress it later")
        self._path, self._header, self._place, self._identity = path, header, place, identity
        text = self._whole_lines()
        rows = list(csv.DictReader(io.StringIO(text)))
        for row in rows:
            if differs := [name for name in place if row[name] != place[name]]:
                name = differs[0]
                raise InputError(
                    f"{str(path)!r} holds points of {name} {row[name]!r} but this run has {place[name]!r}; give another file"
                )
        self._known = {tuple(row[name] for name in identity) for row in rows}
        self.rows = len(rows)

    def __contains__(self, row: Mapping[str, object]) -> bool:
        """Whether the file holds a row with the same identity."""
        return self._key(row) in self._known

    def append(self, row: Mapping[str, object]) -> None:
        """Write a row, which lacks only what the file knows; what was not measured may lack too."""
        cells = {**self._place, **row}
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([_text(cells.get(name, "")) for name in self._header])
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line.getvalue())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {str(self._path)!r}: {error.strerror or error}") from error
        self._known.add(self._key(row))
        self.rows += 1

    def _key(self, row: Mapping[str, object]) -> tuple[str, ...]:
        return tuple(_text(row[name]) for name in self._identity)

    def _whole_lines(self) -> str:
        """The file's text up to its last line end; writes the header of a new one."""
        header = ",".join(self._header) + "\n"
        try:
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        except (OSError, UnicodeError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"cannot continue {str(self._path)!r}: {reason}; give another file") from error
        whole = text[: text.rfind("\n") + 1] or header
        if not (whole.startswith(header) and (header.startswith(text) or text.startswith(header))):
            raise InputError(f"{str(self._path)!r} has no points of this command; give another file to write to")
        if whole != text:
            write_whole(self._path, lambda file: file.write(whole.encode()))
        return whole


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.15g}"
    return str(value)
