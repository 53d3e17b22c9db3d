"""How old a price may be: after a year it is stale, which means marked, and never the winner against a fresh price."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from epochcast.analyzer.jobs.prices.instance import Instance
from epochcast.analyzer.words import count

STALE_DAYS = 365
"""By choice: within a year list prices have fallen by 44 % (AWS' H100 in June 2025), so that an older one says little."""


def today() -> date:
    """The day by which ages count."""
    return date.today()


def is_stale(instance: Instance, day: date) -> bool:
    """Whether its price is older than a year on that day."""
    return (day - instance.date).days > STALE_DAYS


def stale_note(instances: Iterable[Instance], day: date) -> str | None:
    """One sentence if any price is stale: how many, the oldest, what that means and the remedy; else None."""
    known = list(instances)
    old = [instance.date for instance in known if is_stale(instance, day)]
    if not old:
        return None
    are = "is" if len(old) == 1 else "are"
    rank = "and none is newer" if len(old) == len(known) else "and ranked after all newer prices"
    return (
        f"{len(old)} of {count(len(known), 'price')} {are} older than a year (the oldest of {min(old)}), {rank}; renew the "
        "table (epochcast prices update --help) and give it with --prices (setting `prices` of the service)"
    )
