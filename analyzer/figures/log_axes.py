"""Logarithmic axes of times and costs, with ticks that read as plain numbers; equal ones of measured and predicted times."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))


def plain_log_axis(axis: XAxis | YAxis, unit: str = "") -> None:
    """Make the axis of what is drawn already logarithmic, its ticks written out (no powers of ten), each with ``unit``."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.set_major_formatter(lambda value, _: _plain(value) + unit)
    axis.set_minor_formatter(NullFormatter())


def time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """The largest unit in which the middle one of ``seconds`` is 2 or more, and its seconds."""
    middle = float(np.median(list(seconds)))
    return next((unit for unit in _UNITS if middle >= 2 * unit[1]), ("seconds", 1.0))


def _plain(value: float) -> str:
    return np.format_float_positional(value, precision=6, fractional=False, trim="-")


def right_answers(axes: Axes, ends: NDArray[np.float64], band: float) -> None:
    """The line of right answers, and the share ``band`` around it; ``ends``: lowest and highest."""
    axes.fill_between(ends, ends * (1 - band), ends * (1 + band), color="#999999", alpha=0.25, linewidth=0)
    axes.plot(ends, ends, color="black", linewidth=0.8)


def equal_log_axes(axes: Axes, ends: NDArray[np.float64]) -> None:
    """Square log axes in seconds, with the `right_answers` and 20 % around them; ``ends``: lowest and highest."""
    right_answers(axes, ends, band=0.2)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g} s")
        axis.set_minor_formatter(NullFormatter())
