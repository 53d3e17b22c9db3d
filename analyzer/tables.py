"""Plain-text tables, and the cells in them."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from io import StringIO
from typing import TextIO

from epochcast.analyzer.words import TimeUnit, mass, time_unit

# Where there is no room for all; what an answer costs and rests on stays.
_FIRST_TO_GO = ("priced", "CO2e", "region", "cloud", "power", "energy per epoch", "energy", "per hour", "90 % interval")
_WIDE, _NARROW = 16, 12


def width(stream: TextIO | None) -> int | None:
    """Columns of the terminal that ``stream`` goes to; None where it goes elsewhere."""
    return shutil.get_terminal_size().columns if stream is not None and stream.isatty() else None


def table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Columns as wide as their widest cell, two spaces apart, a line for each row.

    Where a terminal has no room for all columns, those of ``_FIRST_TO_GO`` are left out until the rest fits, then wide cells go
    on below, then the last columns are left out as well. Those left out are named below. ``columns``: at most so wide.
    """
    from rich.console import Console  # a tenth of a second, for what prints a table alone
    from rich.table import Column, Table

    shown = list(range(len(header)))
    wide = _WIDE if columns is None else _NARROW
    columns = min((size for size in (columns, width(sys.stdout)) if size is not None), default=None)
    widths = [max(len(row[column]) for row in (header, *rows)) for column in shown]

    def needed(most: float) -> float:
        return sum(min(widths[column], most) + 2 for column in shown) - 2

    for name in _FIRST_TO_GO:
        for column in [column for column in reversed(shown) if header[column] == name]:
            if columns is not None and needed(math.inf) > columns:
                shown.remove(column)
    while columns is not None and len(shown) > 1 and needed(wide) > columns:
        shown.pop()
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    made.columns.extend(Column(header[column], overflow="fold", no_wrap=widths[column] <= wide) for column in shown)
    for row in rows:
        made.add_row(*(row[column] for column in shown))
    text = StringIO()
    # The two spaces after the last column are cut off below.
    console = Console(file=text, width=(columns or int(needed(math.inf))) + 2, markup=False, highlight=False, emoji=False)
    console.print(made)
    if left_out := dict.fromkeys(name for column, name in enumerate(header) if column not in shown):
        console.print(f"(no room for: {', '.join(left_out)})", width=columns)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def seconds_text(seconds: float | None, unit: TimeUnit | None = None) -> str:
    """A time in this unit, or in the one that suits it: ``215 ms``, ``12.3 s``, ``36.1 min``, ``5.20 h``; ``-`` for None."""
    if seconds is None:
        return "-"
    unit = unit or time_unit([seconds])
    return f"{unit.of(seconds)} {unit.name}"


def grams_text(grams: float | None) -> str:
    """``mass`` as a cell; ``-`` for None."""
    return "-" if grams is None else mass(grams)


def percent(ratio: float | None) -> str:
    """A ratio 0..1 as a reader sees it; ``-`` for None."""
    return "-" if ratio is None else f"{100 * ratio:.1f} %"
