"""The demo's report: one HTML file that needs nothing else, no script, no link, no font, no network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from epochcast.analyzer.charts import page_svg
from epochcast.analyzer.style import style_sheet, templates
from epochcast.analyzer.words import seconds, times
from epochcast.common.files import write_whole


def write_report(summary: Mapping[str, Any], figures: Mapping[str, Figure], out: Path) -> Path:
    """Write the report of ``summary`` (the content of ``summary.json``, see `run`) to the HTML file ``out``.

    ``figures``: ``live``, ``replay``, ``predictions``, ``cost``; one that is missing is left out. All texts are escaped, those
    in the figures by matplotlib. The file appears whole or not at all.
    """
    environment = templates(__package__)
    environment.filters |= {"seconds": seconds, "times": times}
    page = environment.get_template("report.html").render(
        summary=summary,
        figures={name: Markup(page_svg(drawn).decode()) for name, drawn in figures.items()},
        style=Markup(style_sheet()),
    )
    return write_whole(out, lambda file: file.write(page.encode()))
