"""GPU occupancy: of a run's busiest kernels, by batch size (as in the DNN-occu paper's Figs. 2 and 6), and over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from epochcast.analyzer.charts import BLUE, GREEN, ORANGE, drawing
from epochcast.analyzer.errors import InputError
from lab.kernels.busiest import short_name
from lab.kernels.kernel_table import OccupancySummary
from lab.kernels.timeline import OccupancyTimeline

_NAME_LENGTH = 60
_LIMIT = "0.45"


def kernel_occupancy_figure(kernels: pd.DataFrame, summary: OccupancySummary) -> Figure:
    """A bar per row of ``busiest`` (``lab/kernels``), the busiest at the top, with its share of the GPU time.

    Bars: launch-config occupancy; ticks: what the launch would reach with a larger grid; diamonds: achieved occupancy where ncu
    measured it; lines: mean over launches and mean weighted by time.

    Raises:
        InputError: there is no kernel.
    """
    if kernels.empty:
        raise InputError("there are no kernels to draw; give a profile with kernels")
    rows = kernels.iloc[::-1]
    places = np.arange(len(rows))
    with drawing():
        figure = Figure(figsize=(10, 1.5 + 0.3 * len(rows)), layout="constrained")
        axes = figure.subplots()
        limit: Any = {"color": _LIMIT, "markersize": 13, "markeredgewidth": 1.5}
        marks: list[Any] = [
            axes.barh(places, 100 * rows["grid"], 0.6, color=BLUE, alpha=0.75, label="occupancy by launch configuration"),
            *axes.plot(100 * rows["limit"], places, "|", label="if the grid were larger", **limit),
        ]
        if rows["achieved"].notna().any():
            marks += axes.plot(100 * rows["achieved"], places, "D", color=ORANGE, markersize=4.5, label="achieved, by ncu")
        for value, style, what in (
            (summary.grid.mean, ":", "mean over launches"),
            (summary.grid.time_mean, "--", "weighted by time"),
        ):
            if not math.isnan(value):
                label = f"{what}: {100 * value:.1f} %"
                marks.append(axes.axvline(100 * value, color=GREEN, linestyle=style, linewidth=1.2, label=label))
        axes.set_yticks(places, [short_name(name, _NAME_LENGTH) for name in rows["kernel"]], parse_math=False)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlim(0, 103)
        axes.set_xlabel("occupancy, % of the warps that the GPU holds")
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(places, [_beside(row) for row in rows.to_dict("records")])
        beside.tick_params(length=0)
        beside.spines[:].set_visible(False)
        axes.grid(axis="y", visible=False)
        axes.set_axisbelow(True)
        figure.legend(handles=marks, loc="outside lower center", ncols=3)
        return figure


def _beside(row: Mapping[Any, Any]) -> str:
    """Share of the GPU time and what limits the kernel."""
    limiter = row["limiter"].replace("_", " ") if isinstance(row["limiter"], str) else "launch not known"
    return limiter if math.isnan(row["share"]) else f"{100 * row['share']:.1f} % of time; {limiter}"


def _ratio_axis(axes: Axes) -> None:
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))


def _legend(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """One legend below of what any panel draws."""
    handles = {mark.get_label(): mark for axes in panels for mark in axes.get_legend_handles_labels()[0]}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=columns)


_MOST_PANELS = 8
_MOST_UNKNOWN = 0.5
"""Share of a bin; with more, the few known values would represent the whole bin."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def occupancy_over_time_figure(timelines: Mapping[str, OccupancyTimeline]) -> Figure:
    """A panel per GPU, by its title, the first eight of them; all, at least one, on one axis of time."""
    shown = list(timelines.items())[:_MOST_PANELS]
    seconds = shown[0][1].seconds
    scale, unit = next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])
    with drawing():
        figure = Figure(figsize=(10, 1.0 + 2.2 * len(shown)), layout="constrained")
        panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, timeline) in zip(panels, shown, strict=True):
            _time_panel(axes, timeline, (timeline.edges - timeline.edges[0]) / scale)
            axes.set_title(title, parse_math=False)
        panels[-1].set_xlabel(f"time since the first kernel, {unit}")
        _legend(figure, panels, columns=3)
        return figure


def _time_panel(axes: Axes, timeline: OccupancyTimeline, edges: NDArray[np.float64]) -> None:
    occupancy = np.where(timeline.unknown <= _MOST_UNKNOWN, timeline.occupancy, np.nan)
    axes.stairs(timeline.utilisation, edges, fill=True, color=ORANGE, alpha=0.15, linewidth=0)
    axes.stairs(occupancy, edges, fill=True, color=BLUE, alpha=0.3, linewidth=0)
    lines = [
        (timeline.utilisation, ORANGE, "--", 1.0, "NVML utilisation: a kernel runs"),
        (occupancy, BLUE, "-", 1.2, "GPU occupancy (by launch configuration)"),
    ]
    if timeline.unknown.any():
        lines.append((timeline.unknown, GREEN, ":", 1.0, "only kernels of unknown occupancy"))
    for values, color, style, width, name in lines:
        axes.stairs(values, edges, baseline=None, color=color, linestyle=style, linewidth=width, label=name)
    axes.set_xlim(edges[0], edges[-1])
    _ratio_axis(axes)
    axes.grid(axis="x", visible=False)
