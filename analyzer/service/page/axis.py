"""From values to places on a plot, in per cent of its width or height, and the positions of ticks.

Plots are drawn in per cent and not in pixels: so they grow with the window, and text and strokes keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# A linear axis squeezes what is small into its first pixels once the largest is so many times as large.
_MOST_ON_A_LINEAR_AXIS = 8.0


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis from ``low`` to ``high`` with ``ticks``."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Per cent of the axis before ``value``; values outside are placed at its end."""
        if self.logarithmic:
            part = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(part, 0.0), 1.0), 3)

    def across(self) -> tuple[tuple[float, str], ...]:
        """Ticks from left to right: place in per cent, and text."""
        return tuple((self.place(tick), _tick_text(tick)) for tick in self.ticks)

    def up(self, before: str = "") -> tuple[tuple[float, str], ...]:
        """Ticks from the bottom up: place in per cent from the top, and text after ``before``."""
        return tuple((round(100 - self.place(tick), 3), before + _tick_text(tick)) for tick in self.ticks)


def axis_from_zero(values: Sequence[float]) -> Axis:
    """For lengths and ratios above 0: linear from 0, or logarithmic where they differ by more than a linear axis shows."""
    least, most = min(values), max(values)
    if most <= _MOST_ON_A_LINEAR_AXIS * least:
        high = most * 1.04
        return Axis(0.0, high, False, _even(0.0, high, 5))
    low, high = least / 1.1, most * 1.1
    return Axis(low, high, True, _by_decade(low, high))


def axis_around(values: Sequence[float], least_share: float) -> Axis:
    """Linear, around ``values``, and at least ``least_share`` of their middle to either side: small noise stays small."""
    low, high = min(values), max(values)
    middle = sorted(values)[len(values) // 2]
    room = 0.08 * (high - low)
    low, high = min(low - room, middle * (1 - least_share)), max(high + room, middle * (1 + least_share))
    low = max(low, 0.0)
    return Axis(low, high, False, _even(low, high, 5))


def axis_between(low: float, high: float, ticks: int) -> Axis:
    """Linear from ``low`` to ``high``."""
    high = high if high > low else low + 1.0
    return Axis(low, high, False, _even(low, high, ticks))


def _tick_text(tick: float) -> str:
    """A round number as short as it can be written."""
    return f"{tick:,.0f}" if tick == round(tick) else f"{tick:g}"


def _even(low: float, high: float, most: int) -> tuple[float, ...]:
    """At most ``most`` + 1 ticks a step of 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return tuple(round(count * step, 12) for count in range(first, math.floor(high / step + 1e-9) + 1))


def _by_decade(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 of each power of ten; only 1 where that would be too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 2.2 else (1, 3) if math.log10(high / low) < 4 else (1,)
    return tuple(tick for power in powers for factor in factors if low <= (tick := factor * 10.0**power) <= high)
