"""Predicted against measured: seconds (the black-box paper's Fig. 11), steps (ConvMeter's Figs. 3, 5 and 7), and ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from epochcast.analyzer.charts import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#777777")
_TARGET_LOOKS = tuple(zip("os^D", _COLORS, strict=True))  # marker and colour of each target GPU, by turns
# Of each group of steps; every further turn of the markers pairs them with other colours.
_STEP_LOOKS = [(marker, _COLORS[(turn + place) % 4]) for turn in range(4) for place, marker in enumerate("os^D")]
_MARKERS = "os^Dv"  # of ratios, paired with the colours by turns

_WIDEN = 2.0
"""How far beyond the measured seconds the axes reach; what is predicted farther off is drawn on the edge."""

_LETTERS_PER_INCH = 11
"""Of the legend, whose marker takes half an inch; a wider one than the figure would leave the panels no room."""

_PER_ROW = 4

_Looks = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Pairs:
    """Measured next to predicted values.

    Attributes:
        title: such as the way to predict, and what was timed.
        measured, predicted: seconds, or ratios 0..1, shape (n,); predicted NaN where there is no answer.
        groups: such as the device of each row, or the family of its network, shape (n,); each has a look of its own.
    """

    title: str
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    groups: NDArray[np.str_]


def scatter_figure(
    measured: NDArray[np.float64],
    predicted: Mapping[str, NDArray[np.float64]],
    sources: NDArray[np.str_],
    targets: NDArray[np.str_],
) -> Figure:
    """One panel per recipe (row) and source GPU (column), log axes; a dot is a pair, marked by its target GPU.

    Titles give the mean absolute percentage error; within 20 % of the measured seconds is shaded.

    Args:
        measured: seconds on the target, shape (n,).
        predicted: for each recipe seconds on the target, shape (n,), NaN where it has no answer.
        sources, targets: names of the GPUs, shape (n,) each.
    """
    gpus = np.unique(sources)
    looks = {target: _TARGET_LOOKS[number % len(_TARGET_LOOKS)] for number, target in enumerate(np.unique(targets))}
    known = np.concatenate([measured, *predicted.values()])
    known = known[np.isfinite(known)]
    ends = np.array([known.min() / 1.3, known.max() * 1.3])
    with drawing():
        figure = Figure(figsize=(0.5 + 2.6 * len(gpus), 0.7 + 2.7 * len(predicted)), layout="constrained")
        panels = figure.subplots(len(predicted), len(gpus), squeeze=False, sharex=True, sharey=True)
        for row, (recipe, seconds) in zip(panels, predicted.items(), strict=True):
            for axes, gpu in zip(row, gpus, strict=True):
                own = sources == gpu
                panel = Pairs(f"from {gpu}", measured[own], seconds[own], targets[own])
                _equal_log_axes(axes, ends)
                _dots(axes, panel, looks, markersize=3.5, alpha=0.7)
                axes.set_title(f"{panel.title}: {_error(panel):.1f} %")
            row[0].set_ylabel(f"predicted by {recipe}")
        for axes in panels[-1]:
            axes.set_xlabel("measured")
        handles = _handles({f"to {target}": look for target, look in looks.items()})
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return figure


def step_figure(panels: Sequence[Sequence[Pairs]]) -> Figure:
    """Rows of panels, of which some may be shorter, log axes, a dot per row; titles give the mean absolute percentage error.

    Within 20 % of the measured seconds is shaded.
    """
    names = _names([panel for row in panels for panel in row])
    looks = {name: _STEP_LOOKS[number % len(_STEP_LOOKS)] for number, name in enumerate(names)}
    rows, columns = len(panels), max(map(len, panels))
    with drawing():
        figure = Figure(figsize=(0.5 + 2.7 * columns, 0.6 + 2.9 * rows), layout="constrained")
        for row, all_axes in zip(panels, figure.subplots(rows, columns, squeeze=False), strict=True):
            for axes in all_axes[len(row) :]:
                axes.remove()
            for panel, axes in zip(row, all_axes[: len(row)], strict=True):
                ends = np.array([panel.measured.min() / _WIDEN, panel.measured.max() * _WIDEN])
                _equal_log_axes(axes, ends)
                _dots(axes, replace(panel, predicted=panel.predicted.clip(*ends)), looks, markersize=3, alpha=0.6)
                axes.set_title(f"{panel.title}: {_error(panel):.1f} %")
                axes.set(xlabel="measured", ylabel="predicted")
        if len(names) > 1:
            fitting = int(figure.get_figwidth() * _LETTERS_PER_INCH / (max(map(len, names)) + _LETTERS_PER_INCH // 2))
            figure.legend(handles=_handles(looks), loc="outside lower center", ncols=max(1, min(len(looks), fitting)))
        return figure


def _error(panel: Pairs) -> float:
    """Mean absolute error, per cent of what was measured."""
    return float(100 * np.nanmean(np.abs(panel.predicted / panel.measured - 1)))


def _names(panels: Sequence[Pairs]) -> list[str]:
    return sorted({name for panel in panels for name in panel.groups.tolist()})


def _dots(axes: Axes, panel: Pairs, looks: _Looks, **look: float) -> None:
    for name, (marker, color) in looks.items():
        here = (panel.groups == name) & np.isfinite(panel.predicted)
        axes.plot(panel.measured[here], panel.predicted[here], marker, color=color, markeredgewidth=0, **look)  # type: ignore[arg-type]


def _handles(looks: _Looks) -> list[Line2D]:
    return [Line2D([], [], marker=marker, color=color, linestyle="", label=name) for name, (marker, color) in looks.items()]


def _equal_log_axes(axes: Axes, ends: NDArray[np.float64]) -> None:
    """Square log axes in seconds, with the `_right_answers` and 20 % around them; ``ends``: lowest and highest."""
    _right_answers(axes, ends, band=0.2)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g} s")
        axis.set_minor_formatter(NullFormatter())


def _right_answers(axes: Axes, ends: NDArray[np.float64], band: float) -> None:
    """The line of right answers, and the share ``band`` around it; ``ends``: lowest and highest."""
    axes.fill_between(ends, ends * (1 - band), ends * (1 + band), color="#999999", alpha=0.25, linewidth=0)
    axes.plot(ends, ends, color="black", linewidth=0.8)
