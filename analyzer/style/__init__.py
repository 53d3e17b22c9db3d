"""The style sheet of all our pages: the service's, and the report of a fleet."""

from __future__ import annotations

from importlib.resources import files


def style_sheet() -> str:
    """``page.css``."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")
