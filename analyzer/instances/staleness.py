"""How old prices are: clouds change them a few times a year, spot prices within days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ..words import count
from .instance import Instance

STALE_DAYS = 90


def stale(instances: Sequence[Instance], today: date) -> str | None:
    """One sentence if any price is older than 90 days: how many, the oldest, and the remedy; else None."""
    old = [one.date for one in instances if (today - one.date).days > STALE_DAYS]
    if not old:
        return None
    are = "is" if len(old) == 1 else "are"
    return (
        f"{len(old)} of {count(len(instances), 'price')} {are} older than {STALE_DAYS} days, the oldest of {min(old)}; check "
        "them, or import newer ones from the SkyPilot catalog (epochcast prices import --help) and give them with --prices "
        "(setting `prices` of the service)"
    )
