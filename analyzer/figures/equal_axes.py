"""Equal logarithmic axes of measured and predicted seconds, with the line of right answers."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

_BAND = 0.2


def equal_log_axes(axes: Axes, ends: NDArray[np.float64]) -> None:
    """Square log axes in seconds, the line of right answers, and the band of 20 % around it; ``ends``: lowest and highest."""
    axes.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="#999999", alpha=0.25, linewidth=0)
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g} s")
        axis.set_minor_formatter(NullFormatter())
