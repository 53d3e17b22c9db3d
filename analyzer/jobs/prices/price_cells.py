"""Cells of a price list as numbers and dates, each checked with a sentence about what is wrong with it."""

from __future__ import annotations

import math
from datetime import date, timedelta

from epochcast.analyzer.errors import InputError

_USD_PER_HOUR = (1e-6, 1e6)  # beyond, a typing error; and no cost may come out as 0, or as what JSON cannot hold (infinity)
_VCPUS = (1e-3, 1e5)
_MEMORY_GIB = (1e-3, 1e6)


def price(text: str, what: str) -> float | None:
    """USD per hour; None for an empty cell. Raises InputError for anything but a plain number above 0."""
    remedy = "write a plain number of USD per hour above 0 (no currency sign; convert other currencies)"
    return _within(text, what, *_USD_PER_HOUR, remedy)


def vcpus(text: str, what: str) -> float | None:
    """Virtual CPUs of the host; None for an empty cell."""
    return _within(text, what, *_VCPUS, "write a number above 0, or leave it empty")


def memory(gib: str, what: str) -> float | None:
    """Memory of the host [bytes] from GiB; None for an empty cell."""
    value = _within(gib, what, *_MEMORY_GIB, "write GiB as a number above 0, or leave it empty")
    return None if value is None else value * 2**30


def count(text: str, what: str) -> int:
    """How many GPUs, 1 or more."""
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) > 0):
        raise InputError(f"{what} is {text!r}; it must be a whole number of GPUs, 1 or more")
    return int(text)


def day(text: str, what: str, today: date | None) -> date:
    """A date as YYYY-MM-DD, not after ``today`` (a day of grace for time zones); any date where ``today`` is None."""
    try:
        value = date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{what} is {text!r}; write it as YYYY-MM-DD") from None
    if today is not None and value > today + timedelta(days=1):
        raise InputError(f"{what} is {text}, after today ({today}); give the day on which the price was seen")
    return value


def _within(text: str, what: str, least: float, most: float, remedy: str) -> float | None:
    if not text:
        return None
    try:
        value = math.nan if "_" in text else float(text)  # 1_5 is Python's 15, and a slip for 1.5
    except ValueError:
        value = math.nan
    if not least <= value < most:
        raise InputError(f"{what} is {text!r}; {remedy}")
    return value
