"""Numbers as people read them: lengths of time, money, shares and ages, each with its unit.

The text of a measured or predicted number also carries it in full (``<data value>``, ``<time datetime>``), so that a
program that reads the page gets what the API answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

# Between a number and its unit: no line ends there.
_SPACE = "\N{NO-BREAK SPACE}"

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


@dataclass(frozen=True)
class TimeUnit:
    """A unit for a whole table or axis, so that its numbers can be compared at a glance."""

    name: str
    seconds: float

    def of(self, seconds: float) -> str:
        """``seconds`` in this unit, three digits, without the unit's name."""
        return number(seconds / self.seconds)


_UNITS = (TimeUnit("ms", 1e-3), TimeUnit("s", 1), TimeUnit("min", _MINUTE_S), TimeUnit("h", _HOUR_S), TimeUnit("days", _DAY_S))


def time_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """The unit in which the middle one of ``seconds`` reads best; seconds where there are none."""
    known = sorted(value for value in seconds if value is not None)
    if not known:
        return _UNITS[1]
    middle = known[len(known) // 2]
    # A number below 2 of a unit has few digits, so each unit is used up to a few hundred.
    limits = (0.5, 600, 4 * _HOUR_S, 4 * _DAY_S, math.inf)
    return next(unit for unit, limit in zip(_UNITS, limits, strict=True) if middle < limit)


def number(value: float) -> str:
    """``value`` with three significant digits, thousands set apart, never in powers of ten unless tiny."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(float(f'{value:.3g}')))))}f}"


def plain(text: str) -> str:
    """``text`` as people type it: who searches for ``12 s`` types a space."""
    return text.replace(_SPACE, " ")


def length(seconds: float | None) -> str:
    """A length of time: ``215 ms``, ``92.1 s``, ``3 min 4 s``, ``2 h 31 min``, ``3 d 4 h``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 1:
        return f"{number(seconds * 1000)}{_SPACE}ms"
    if seconds < 2 * _MINUTE_S:
        return f"{number(seconds)}{_SPACE}s"
    for large, small, names in ((_MINUTE_S, 1, "min s"), (_HOUR_S, _MINUTE_S, "h min"), (_DAY_S, _HOUR_S, "d h")):
        quotient, rest = divmod(round(seconds / small), large // small)
        # Hours up to two days: "36 h" is easier to compare than "1 d 12 h".
        if large == _DAY_S or seconds < (2 * _HOUR_S if large == _MINUTE_S else 2 * _DAY_S):
            first, second = names.split()
            return _SPACE.join([f"{quotient:,}", first, *([str(rest), second] if rest else [])])
    raise AssertionError("days hold every length")


def seconds(value: float | None) -> Markup:
    """`length` with the seconds in full."""
    return _data(value, length(value))


def in_unit(value: float | None, unit: TimeUnit) -> Markup:
    """``value`` [s] in a table's unit, with the seconds in full."""
    return _data(value, "–" if value is None else unit.of(value))


def between(low: float | None, high: float | None, unit: TimeUnit | None = None) -> str:
    """Both ends of an interval [s] in this unit, or in the one that suits its upper end: ``181 to 188 s``."""
    if low is None or high is None:
        return ""
    unit = unit or time_unit([high])
    return f"{unit.of(low)} to {unit.of(high)}{_SPACE}{unit.name}"


def money(value: float | None) -> str:
    """USD: ``$0.0034``, ``$0.060``, ``$0.41``, ``$12.30``, ``$1,234``."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 1000 else 2 if size >= 0.1 or size == 0 else 1 - math.floor(math.log10(size))
    return f"{'−' if value < 0 else ''}${size:,.{digits}f}"


def usd(value: float | None) -> Markup:
    """`money` with the figure in full."""
    return _data(value if value is None or math.isfinite(value) else None, money(value))


def with_prefix(value: float, unit: str) -> str:
    """Three significant digits with a decimal prefix, e.g. ``512 J``, ``12.3 kJ``, ``1.49 GHz``."""
    size, prefix = next(((size, name) for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= size), (1, ""))
    return f"{number(value / size)} {prefix}{unit}".rstrip()


def mass(grams: float) -> str:
    """``512 g``, ``12.3 kg``, ``1.49 t``."""
    return with_prefix(grams, "g") if grams < 1e6 else with_prefix(grams / 1e6, "t")


def energy(joules: float) -> Markup:
    """Energy with the joules in full: ``12.3 MJ``."""
    return _data(joules, with_prefix(joules, "J"))


def carbon(grams: float) -> Markup:
    """`mass` with the grams in full."""
    return _data(grams, mass(grams))


def share(value: float | None) -> Markup:
    """A ratio as a percentage: ``37 %``."""
    return _data(value, "–" if value is None or not math.isfinite(value) else f"{value * 100:.0f}{_SPACE}%".replace("-", "−"))


def times(value: float | None) -> Markup:
    """A ratio of two times: ``0.31×``."""
    if value is None or not math.isfinite(value):
        return _data(None, "–")
    digits = 0 if value >= 100 else 2 if value >= 0.095 else 3
    return _data(value, f"{value:,.{digits}f}×")


def ago(moment: float | None, now: float) -> Markup:
    """How long ago ``moment`` [unix s] was, with date and time as a tooltip; ``never`` for None."""
    if moment is None:
        return _html("never")
    age = max(0.0, now - moment)
    for limit, unit, name in ((90, 1, "s"), (90 * 60, 60, "min"), (36 * 3600, 3600, "h"), (math.inf, 86400, "d")):
        if age < limit:
            text = "now" if age < 1.5 else f"{age / unit:,.0f}{_SPACE}{name} ago"
            break
    since = _at(moment).isoformat(timespec="seconds")
    return _html('<time datetime="{}" title="{}">{}</time>', since, clock(moment), text)


def clock(moment: float, digits: int = 0) -> str:
    """Date and time of ``moment`` [unix s], in UTC since neither end knows the other's zone; ``digits`` after the second."""
    at = _at(round(moment, digits) if digits else moment)
    fraction = f".{at:%f}"[: digits + 1] if digits else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def count(many: int, singular: str, plural: str | None = None) -> str:
    """``1 GPU``, ``8 GPUs``, ``no GPUs``."""
    return f"{'no' if many == 0 else f'{many:,}'} {singular if many == 1 else plural or f'{singular}s'}"


def one_name(gpu: str | None) -> str | None:
    """The name of a GPU, once where it is repeated for each of several that are equal (wandb's list of devices)."""
    names = {name.strip() for name in str(gpu).split(",")}
    return names.pop() if gpu and len(names) == 1 else gpu


def _at(moment: float) -> datetime:
    try:
        return datetime.fromtimestamp(moment, UTC)
    except (OverflowError, ValueError, OSError):  # a clock that shows a year of six digits
        return datetime.fromtimestamp(0, UTC)


def _data(value: float | None, text: str) -> Markup:
    return _html("{}", text) if value is None else _html('<data value="{}">{}</data>', f"{value:.12g}", text)


def _html(template: str, *texts: str) -> Markup:
    """The template with the texts, escaped."""
    from markupsafe import Markup  # for pages: the node analyzer does not install it

    return Markup(template).format(*texts)


def bare(name: str) -> str:
    """A name without capitals, blanks and signs, in which people differ."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
