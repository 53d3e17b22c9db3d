"""Predicted against measured ratios, such as GPU occupancy, a panel per recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator, PercentFormatter
from numpy.typing import NDArray

from .style import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#777777")
_MARKERS = "os^Dv"
_BAND = 0.1
_PER_ROW = 4


@dataclass(frozen=True)
class RatioPanel:
    """What one panel shows.

    Attributes:
        title: the recipe.
        measured, predicted: ratios 0..1, shape (n,); predicted NaN where there is no answer.
        groups: such as the family of each row's network, shape (n,); each has a look of its own.
    """

    title: str
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    groups: NDArray[np.str_]


def ratio_scatter_figure(panels: Sequence[RatioPanel], label: str = "measured") -> Figure:
    """Up to four panels a row, a dot per row of the table, 10 % around it is shaded; titles tell the mean relative error.

    Args:
        panels: at least one.
        label: what the horizontal axis holds.
    """
    names = sorted({name for panel in panels for name in panel.groups.tolist()})
    looks = {name: (_MARKERS[place % len(_MARKERS)], _COLORS[place % len(_COLORS)]) for place, name in enumerate(names)}
    columns = min(len(panels), _PER_ROW)
    rows = math.ceil(len(panels) / columns)
    ends = np.array([0.0, 1.0])
    with drawing():
        figure = Figure(figsize=(0.5 + 2.7 * columns, 0.8 + 2.6 * rows), layout="constrained")
        all_axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in all_axes[len(panels) :]:
            axes.remove()
        for panel, axes in zip(panels, all_axes, strict=False):
            axes.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="#999999", alpha=0.25, linewidth=0)
            axes.plot(ends, ends, color="black", linewidth=0.8)
            for name, (marker, color) in looks.items():
                here = panel.groups == name
                axes.plot(
                    panel.measured[here], panel.predicted[here], marker, color=color, markersize=3, alpha=0.6, markeredgewidth=0
                )
            error = 100 * np.nanmean(np.abs(panel.predicted / panel.measured - 1))
            axes.set_title(f"{panel.title}: MRE {error:.1f} %", parse_math=False)
            axes.set(xlabel=label, ylabel="predicted", xlim=ends, ylim=ends, aspect="equal")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MultipleLocator(0.25))
                axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol="%"))
        if len(names) > 1:
            handles = [
                Line2D([], [], marker=m, color=c, linestyle="", label=name.replace("_", " ")) for name, (m, c) in looks.items()
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 2 * columns))
        return figure
