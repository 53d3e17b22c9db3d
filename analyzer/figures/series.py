"""A series over time, legible at any length."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

# About one per pixel of a panel as wide as a page.
_COLUMNS = 1200

# A pause between readings this many times the usual one is a hole: no line crosses it.
_HOLE = 10.0


def draw_series(axes: Axes, time: NDArray[np.float64], values: NDArray[np.float64], *, color: str, width: float = 0.9) -> None:
    """Draw the readings (NaN: none at this time); where there are too many to tell apart, their mean and range per column.

    A line through every sample of a long trace would be a solid band that hides the epochs.
    """
    read = ~np.isnan(values)
    time, values = time[read], values[read]
    if time.size > 2 * _COLUMNS:
        time, low, values, high = _columns(time, values)
        axes.fill_between(time, low, high, color=color, alpha=0.4, linewidth=0)
    if time.size > 2:
        steps = np.diff(time)
        holes = np.flatnonzero(steps > _HOLE * np.median(steps)) + 1
        time, values = np.insert(time, holes, np.nan), np.insert(values, holes, np.nan)
    axes.plot(time, values, color=color, linewidth=width)


def _columns(
    time: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Time, minimum, mean and maximum of each column that holds a reading."""
    edges = np.linspace(time[0], time[-1], _COLUMNS + 1)[:-1]
    first = np.unique(np.searchsorted(time, edges))
    count = np.diff(np.append(first, time.size))
    mean = np.add.reduceat(values, first) / count
    return time[first], np.minimum.reduceat(values, first), mean, np.maximum.reduceat(values, first)
