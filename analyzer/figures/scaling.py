"""Throughput against devices, nodes or batch, as in the ConvMeter paper's Figs. 8 and 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..errors import InputError
from .style import BLUE, GREEN, ORANGE, drawing, panels_of, sizes_axis

_PER_ROW = 4
_MOST_TICKS = 6


@dataclass(frozen=True)
class ScalingCurve:
    """Throughput of one network; arrays of shape (n,), NaN where there is nothing.

    Attributes:
        title: what the panel shows.
        sizes: devices, nodes or batches, in ascending order.
        predicted: images per second.
        low, high: ends of the 90 % interval.
        measured: images per second.
        spread: standard deviation of what was measured.
        turning_point: size from which on more does not pay; None: not among these sizes.
        beyond: whether a size is beyond the memory of the device, where it is predicted all the same; shape (n,).
    """

    title: str
    sizes: NDArray[np.float64]
    predicted: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    measured: NDArray[np.float64] | None = None
    spread: NDArray[np.float64] | None = None
    turning_point: float | None = None
    beyond: NDArray[np.bool_] | None = None


def scaling_figure(curves: Sequence[ScalingCurve], xlabel: str) -> Figure:
    """One panel per curve, four in a row, each from zero up; the line is predicted, dots are measured.

    Raises:
        InputError: there is no curve, or one has no more than a single size.
    """
    if not curves or any(len(curve.sizes) < 2 for curve in curves):
        raise InputError("there is nothing to draw with a single size; give several devices or batches")
    columns = min(len(curves), _PER_ROW)
    rows = math.ceil(len(curves) / columns)
    with drawing():
        figure = Figure(figsize=(max(2.6 * columns, 5.2), 0.9 + 2.2 * rows), layout="constrained")
        for curve, axes in zip(curves, panels_of(figure, len(curves), columns, xlabel), strict=True):
            _panel(axes, curve)
        figure.supylabel("images per second", fontsize="medium")
        figure.legend(handles=_legend(curves), loc="outside lower center", ncols=3)
        return figure


def _panel(axes: Axes, curve: ScalingCurve) -> None:
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.sizes, curve.low, curve.high, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(curve.sizes, curve.predicted, color=BLUE, linewidth=1.2)
    if curve.beyond is not None and curve.beyond.any():
        axes.plot(
            curve.sizes[curve.beyond], curve.predicted[curve.beyond], "o", color=BLUE, markersize=4, markerfacecolor="none"
        )
    if curve.measured is not None:
        axes.errorbar(
            curve.sizes, curve.measured, yerr=curve.spread, fmt="o", color=ORANGE, markersize=3.5, elinewidth=1, capsize=2
        )
    if curve.turning_point is not None:
        axes.axvline(curve.turning_point, color=GREEN, linestyle=":", linewidth=1.2)
    sizes_axis(axes, curve.sizes, _MOST_TICKS)
    axes.set_ylim(bottom=0)
    axes.set_title(curve.title, parse_math=False)


def _legend(curves: Sequence[ScalingCurve]) -> list[Line2D | Patch]:
    """A handle for whatever is drawn anywhere."""
    handles: list[Line2D | Patch] = [Line2D([], [], color=BLUE, label="predicted")]
    if any(curve.low is not None for curve in curves):
        handles.append(Patch(color=BLUE, alpha=0.2, linewidth=0, label="90 % interval"))
    if any(curve.measured is not None for curve in curves):
        handles.append(Line2D([], [], color=ORANGE, marker="o", linestyle="", markersize=3.5, label="measured"))
    if any(curve.turning_point is not None for curve in curves):
        handles.append(Line2D([], [], color=GREEN, linestyle=":", label="more do not pay"))
    if any(curve.beyond is not None and curve.beyond.any() for curve in curves):
        handles.append(Line2D([], [], color=BLUE, marker="o", linestyle="", markerfacecolor="none", label="beyond the memory"))
    return handles
