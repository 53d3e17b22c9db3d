"""The fleet's report: one HTML file that needs nothing else, no script, no link, no font, no network.

It shows what ``summary.json`` holds, in the look of the service's page, whose style sheet it carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from epochcast.analyzer import words
from epochcast.analyzer.style import style_sheet, templates
from epochcast.common.files import write_whole

# Kinds of cycles for people, and what is not known.
_CYCLES = {
    "step": "steps",
    "checkpoint": "checkpoints",
    "evaluation": "evaluations",
    "epoch": "epochs",
    "unknown": "a cycle of unknown kind",
    "cycle": "a cycle of unknown kind",
    "none": "none: no cycle, or none certain enough",
}

_FOUND = {"epochs": "epochs", "steps": "steps only", "none": "work without epochs or steps", "idle": "no work"}

_FILTERS = ("seconds", "usd", "share", "times", "clock", "count", "number")


def write_report(summary: Mapping[str, Any], out: Path) -> Path:
    """Write the report of ``summary`` (the content of ``summary.json``, see `analyze`) to the HTML file ``out``.

    All texts are escaped. The file appears whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    environment = templates(__package__)
    environment.filters |= {name: getattr(words, name) for name in _FILTERS} | {"hours": _hours, "duration": words.length}
    styles = [style_sheet(), resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")]
    text = environment.get_template("report.html").render(
        **summary,
        style=Markup("\n".join(styles)),
        cycle_names=_CYCLES,
        found_names=_FOUND,
    )
    return write_whole(out, lambda file: file.write(text.encode()))


def _hours(hours: float | None) -> Markup:
    """A length of time in hours."""
    return words.seconds(None if hours is None else 3600 * hours)
