"""Figures as text, alike for all that is evaluated: what was asked, recipes next to each other, and one of them by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from epochcast.analyzer.tables import table


def figure(value: float | None) -> str:
    """Four significant digits; ``-`` for None."""
    return "-" if value is None else f"{value:.4g}"


Line = Mapping[str, Any]
"""Figures by their JSON keys."""

Columns = dict[str, Callable[[Line], str]]
"""What a table shows of each line, by the title."""

_TITLES = {
    "mape": "MAPE %",
    "median_ape": "median %",
    "p90_ape": "P90 %",
    "rmse": "RMSE s",
    "nrmse": "NRMSE",
    "r2": "R2",
    "n": "n",
    "coverage": "answered",
    "inside": "inside",
    "regret": "regret %",
}
_SHARES = ("coverage", "inside", "fastest_right")

_MOST_LINES = dict.fromkeys(("batch", "image_size", "devices"), 12) | dict.fromkeys(("family", "network", "block", "test"), 45)
"""By choice; longer tables are left to --json."""

_WORST_FIRST = ("family", "network", "block")


def number(key: str) -> Callable[[Line], str]:
    """The cell of a figure: four significant digits, counts whole, ``-`` where there is none."""

    def cell(line: Line) -> str:
        value = line.get(key)
        if isinstance(value, int):
            return str(value)
        return figure(None if value is None or value != value else value)  # NaN is not itself

    return cell


def percent(key: str) -> Callable[[Line], str]:
    """The cell of a share 0..1, which is shown in percent; ``-`` where there is none."""

    def cell(line: Line) -> str:
        share = line.get(key)
        return "-" if share is None or share != share else f"{100 * share:.3g} %"

    return cell


def columns(*names: str, **titled: str) -> Columns:
    """Columns of figures by their JSON keys; at the end those whose titles are given."""
    titles = {name: _TITLES[name] for name in names} | titled
    return {title: (percent if name in _SHARES else number)(name) for name, title in titles.items()}


def of(part: str, total: str) -> Callable[[Line], str]:
    """The cell of how many of how many; ``-`` of none."""
    return lambda line: f"{line[part]}/{line[total]}" if line.get(total) else "-"


def within(key: str, cell: Callable[[Line], str]) -> Callable[[Line], str]:
    """The cell of the figures that a line holds under ``key``, if any."""
    return lambda line: cell(line.get(key) or {})


def lines(first: str, columns: Columns, rows: Iterable[tuple[str, Line]]) -> str:
    """A table with a line for each of ``rows``, named under ``first``; columns without any value are left out."""
    cells = [(name, *(cell(line) for cell in columns.values())) for name, line in rows]
    shown = [column for column in range(len(columns) + 1) if any(row[column] != "-" for row in cells)]
    header = (first, *columns)
    return table([header[column] for column in shown], [[row[column] for column in shown] for row in cells])


def tables_of_groups(by: Mapping[str, Mapping[str, Line]], columns: Columns) -> list[str]:
    """A table for each of what rows are grouped by, but for those with too few groups or too many."""
    return [
        lines(key.replace("_", " "), columns, _ordered(key, named))
        for key, named in by.items()
        if (1 if key == "block" else 2) <= len(named) <= _MOST_LINES.get(key, len(named))
    ]


def paragraphs(*parts: str) -> str:
    """Parts with an empty line between them; empty ones are passed over."""
    return "\n\n".join(part for part in parts if part)


def _ordered(key: str, named: Mapping[str, Line]) -> list[tuple[str, Line]]:
    if key not in _WORST_FIRST:
        return list(named.items())
    return sorted(named.items(), key=lambda line: line[1]["mape"] if line[1]["n"] else 0, reverse=True)
