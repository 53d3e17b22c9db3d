"""Plain-text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart, left-aligned."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
    )


def seconds_text(seconds: float | None) -> str:
    """Seconds with three significant digits, e.g. ``0.512 s``, ``12.3 s``, ``1234 s``; ``-`` for None."""
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def with_prefix(value: float, unit: str) -> str:
    """Three significant digits with a decimal prefix, e.g. ``512 J``, ``12.3 kJ``, ``1.49 GHz``."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def figure(value: float | None) -> str:
    """Four significant digits; ``-`` for None."""
    return "-" if value is None else f"{value:.4g}"
