"""Predicted against measured steps, as in ConvMeter's Figs. 3, 5 and 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from .log_axes import equal_log_axes
from .style import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#777777")
# Marker and colour of each group; every further turn of the markers pairs them with other colours.
_LOOKS = [(marker, _COLORS[(turn + place) % 4]) for turn in range(4) for place, marker in enumerate("os^D")]

_WIDEN = 2.0
"""How far beyond the measured seconds the axes reach; what is predicted farther off stands on the edge."""

_LETTERS_PER_INCH = 11
"""Of the legend, whose marker takes half an inch; a wider one than the figure would leave the panels no room."""


@dataclass(frozen=True)
class Panel:
    """What one panel shows.

    Attributes:
        recipe: the way to predict.
        phase: what was timed.
        measured, predicted: seconds, shape (n,); predicted NaN where there is no answer.
        groups: such as the device of each row, shape (n,); each has a marker.
    """

    recipe: str
    phase: str
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    groups: NDArray[np.str_]


def step_figure(panels: Sequence[Sequence[Panel]]) -> Figure:
    """Rows of panels, of which some may be shorter, log axes, a dot per row; titles tell the mean absolute percentage error.

    Within 20 % of the measured seconds is shaded.
    """
    names = sorted({name for row in panels for panel in row for name in panel.groups.tolist()})
    looks = {name: _LOOKS[number % len(_LOOKS)] for number, name in enumerate(names)}
    rows, columns = len(panels), max(map(len, panels))
    with drawing():
        figure = Figure(figsize=(0.5 + 2.7 * columns, 0.6 + 2.9 * rows), layout="constrained")
        for row, all_axes in zip(panels, figure.subplots(rows, columns, squeeze=False), strict=True):
            for axes in all_axes[len(row) :]:
                axes.remove()
            for panel, axes in zip(row, all_axes[: len(row)], strict=True):
                ends = np.array([panel.measured.min() / _WIDEN, panel.measured.max() * _WIDEN])
                equal_log_axes(axes, ends)
                for name, (marker, color) in looks.items():
                    here = (panel.groups == name) & np.isfinite(panel.predicted)
                    seconds = panel.predicted[here].clip(*ends)
                    axes.plot(
                        panel.measured[here],
                        seconds,
                        marker,
                        color=color,
                        markersize=3,
                        alpha=0.6,
                        markeredgewidth=0,
                    )
                error = 100 * np.nanmean(np.abs(panel.predicted / panel.measured - 1))
                axes.set_title(f"{panel.recipe}, {panel.phase}: {error:.1f} %")
                axes.set(xlabel="measured", ylabel="predicted")
        if len(names) > 1:
            handles = [Line2D([], [], marker=m, color=c, linestyle="", label=name) for name, (m, c) in looks.items()]
            fitting = int(figure.get_figwidth() * _LETTERS_PER_INCH / (max(map(len, names)) + _LETTERS_PER_INCH // 2))
            figure.legend(handles=handles, loc="outside lower center", ncols=max(1, min(len(handles), fitting)))
        return figure
