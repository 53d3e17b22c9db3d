"""GPU occupancy and NVML utilisation by batch size, as in the DNN-occu paper's Figs. 2 and 6."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter
from numpy.typing import NDArray

from ..backends.occupancy.batch_sweep import WITHIN
from .style import BLUE, GREEN, ORANGE, drawing

_PER_ROW = 3
_MOST_TICKS = 7


@dataclass(frozen=True)
class BatchCurve:
    """One network on one GPU; ratios 0..1, arrays of shape (n,), NaN where nothing is known.

    Attributes:
        title: what the panel shows.
        batches: in ascending order.
        occupancy: predicted or measured.
        low, high: ends of its 90 % interval.
        nvml_utilisation: of the same steps.
        smallest: batch from which on larger ones fill the GPU no better; None: not looked for.
    """

    title: str
    batches: NDArray[np.float64]
    occupancy: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    nvml_utilisation: NDArray[np.float64]
    smallest: float | None = None


def occupancy_by_batch_figure(curves: Sequence[BatchCurve], occupancy: str, nvml_utilisation: str) -> Figure:
    """One panel per curve, three in a row, from 0 to 100 %.

    Args:
        curves: at least one.
        occupancy, nvml_utilisation: where either comes from, such as ``predicted`` or ``measured``, for the legend.
    """
    columns = min(len(curves), _PER_ROW)
    rows = math.ceil(len(curves) / columns)
    with drawing():
        figure = Figure(figsize=(max(3.2 * columns, 6.4), 0.7 + 2.4 * rows), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for curve, axes in zip(curves, panels, strict=False):
            _panel(axes, curve)
        for axes in panels[len(curves) :]:
            axes.remove()
        for axes in panels[max(0, len(curves) - columns) : len(curves)]:  # the lowest of each column
            axes.set_xlabel("batch size")
        figure.legend(handles=_legend(curves, occupancy, nvml_utilisation), loc="outside lower center", ncols=2)
        return figure


def _panel(axes: Axes, curve: BatchCurve) -> None:
    axes.fill_between(curve.batches, curve.low, curve.high, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(curve.batches, curve.nvml_utilisation, color=ORANGE, linewidth=1.2, linestyle="--", marker="s", markersize=3)
    axes.plot(curve.batches, curve.occupancy, color=BLUE, linewidth=1.2, marker="o", markersize=3)
    if curve.smallest is not None:
        axes.axvline(curve.smallest, color=GREEN, linestyle=":", linewidth=1.2)
    if curve.batches[-1] >= 8 * curve.batches[0]:
        axes.set_xscale("log", base=2)
    ticks = curve.batches[:: math.ceil(len(curve.batches) / _MOST_TICKS)]
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
    axes.set_title(curve.title, parse_math=False)


def _legend(curves: Sequence[BatchCurve], occupancy: str, nvml_utilisation: str) -> list[Line2D | Patch]:
    """A handle for whatever is drawn anywhere."""
    blue = Line2D([], [], color=BLUE, marker="o", markersize=3, label=f"GPU occupancy ({occupancy})")
    handles: list[Line2D | Patch] = [blue]
    if any(np.isfinite(curve.nvml_utilisation).any() for curve in curves):
        label = f"NVML utilisation ({nvml_utilisation})"
        handles.append(Line2D([], [], color=ORANGE, linestyle="--", marker="s", markersize=3, label=label))
    if any(np.isfinite(curve.low).any() for curve in curves):
        handles.append(Patch(color=BLUE, alpha=0.2, linewidth=0, label="90 % interval"))
    if any(curve.smallest is not None for curve in curves):
        near = f"smallest batch within {100 * WITHIN:.0f} % of the highest"
        handles.append(Line2D([], [], color=GREEN, linestyle=":", label=near))
    return handles
