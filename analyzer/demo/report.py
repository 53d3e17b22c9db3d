"""The demo's report: one HTML file that needs nothing else, no script, no link, no font, no network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from epochcast.analyzer.charts import page_svg
from epochcast.analyzer.style import templates
from epochcast.analyzer.words import money
from epochcast.common.files import write_whole


def write_report(summary: Mapping[str, Any], figures: Mapping[str, Figure], out: Path) -> Path:
    """Write the report of ``summary`` (the content of ``summary.json``, see `run`) to the HTML file ``out``.

    ``figures``: ``live``, ``replay``, ``predictions``, ``cost``; one that is missing is left out. All texts are escaped, those
    in the figures by matplotlib. The file appears whole or not at all.
    """
    environment = templates(__package__)
    environment.filters |= {"seconds": _seconds, "percent": _percent, "usd": money, "ratio": _ratio}
    page = environment.get_template("report.html").render(
        summary=summary, figures={name: Markup(page_svg(drawn).decode()) for name, drawn in figures.items()}
    )
    return write_whole(out, lambda file: file.write(page.encode()))


def _seconds(value: float | None) -> str:
    """Seconds with about four significant digits, and as minutes and hours next to it where they are many."""
    if value is None:
        return "–"
    text = f"{value:,.2f} s" if abs(value) < 100 else f"{value:,.0f} s"
    if value >= 7200:
        return f"{text} ({value / 3600:.1f} h)"
    return f"{text} ({value / 60:.1f} min)" if value >= 300 else text


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def _ratio(value: float) -> str:
    return f"{value:.2f}×"
