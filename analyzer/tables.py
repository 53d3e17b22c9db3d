"""Plain-text tables for the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from epochcast.analyzer.words import TimeUnit, mass, time_unit

_BETWEEN = 2
# Where there is no room for all; what an answer costs and rests on stays longest.
_FIRST_TO_GO = (
    *("priced", "CO2e", "region", "cloud", "power", "energy per epoch", "energy", "per hour", "90 % interval", "rests on"),
)
_NARROWEST = 16  # of a column of prose


def width(stream: TextIO | None) -> int | None:
    """Columns of the terminal that ``stream`` goes to; None where it goes elsewhere."""
    return shutil.get_terminal_size().columns if stream is not None and stream.isatty() else None


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, prose: bool = False) -> str:
    """Columns as wide as their widest cell, two spaces apart, left-aligned.

    Where a terminal has no room for all of them, those of ``_FIRST_TO_GO`` are left out first, then the last ones, until the
    rest fits; they are named below. If the last one is ``prose``, its text is wrapped instead.
    """
    columns = width(sys.stdout)
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    if columns is None or _total(widths) <= columns:
        return _lines(header, rows, widths)
    if prose and (room := columns - _total(widths[:-1]) - _BETWEEN) >= _NARROWEST:
        parts = [(row, textwrap.wrap(row[-1], room) or [""]) for row in rows]
        below = [""] * (len(header) - 1)
        wrapped = [(*(row[:-1] if line == 0 else below), text) for row, own in parts for line, text in enumerate(own)]
        return _lines(header, wrapped, [*widths[:-1], room])
    shown = list(range(len(header)))
    for column in sorted(shown[1:], key=lambda column: (_rank(header[column]), -column)):
        if _total([widths[each] for each in shown]) <= columns:
            break
        shown.remove(column)
    left_out = ", ".join(dict.fromkeys(name for column, name in enumerate(header) if column not in shown and name))
    text = _lines(
        [header[column] for column in shown],
        [[row[column] for column in shown] for row in rows],
        [widths[column] for column in shown],
    )
    return f"{text}\n{textwrap.fill(f'(no room for: {left_out})', columns)}" if left_out else text


def _rank(name: str) -> int:
    return _FIRST_TO_GO.index(name) if name in _FIRST_TO_GO else len(_FIRST_TO_GO)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    between = " " * _BETWEEN
    return "\n".join(
        between.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def seconds_text(seconds: float | None, unit: TimeUnit | None = None) -> str:
    """A time in this unit, or in the one that suits it: ``215 ms``, ``12.3 s``, ``36.1 min``, ``5.20 h``; ``-`` for None."""
    if seconds is None:
        return "-"
    unit = unit or time_unit([seconds])
    return f"{unit.of(seconds)} {unit.name}"


def interval_text(low: float | None, high: float | None, unit: TimeUnit | None = None) -> str:
    """Both ends of an interval [s] in this unit, or in one that suits both: ``21.5 to 60.5 min``; ``-`` without one."""
    if low is None or high is None:
        return "-"
    unit = unit or time_unit([high])
    return f"{unit.of(low)} to {unit.of(high)} {unit.name}"


def grams_text(grams: float | None) -> str:
    """``mass`` as a cell; ``-`` for None."""
    return "-" if grams is None else mass(grams)


def percent(ratio: float | None) -> str:
    """A ratio 0..1 as a reader sees it; ``-`` for None."""
    return "-" if ratio is None else f"{100 * ratio:.1f} %"
