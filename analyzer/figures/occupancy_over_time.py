"""GPU occupancy and NVML utilisation over time: how much less of a GPU is filled than its utilisation tells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from ..backends.occupancy.launch.timeline import Timeline
from .style import BLUE, GREEN, ORANGE, drawing

_MOST_PANELS = 8
_MOST_UNKNOWN = 0.5
"""Share of a bin; with more, the little that is known would stand for all of it."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def occupancy_over_time_figure(timelines: Mapping[str, Timeline], occupancy: str) -> Figure:
    """A panel per GPU, by its title, the first eight of them; all on one axis of time.

    Args:
        timelines: at least one, all of the same edges.
        occupancy: where it comes from, for the legend, such as ``by launch configuration``.
    """
    shown = list(timelines.items())[:_MOST_PANELS]
    with drawing():
        figure = Figure(figsize=(10, 1.0 + 2.2 * len(shown)), layout="constrained")
        panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, timeline) in zip(panels, shown, strict=True):
            unit = _panel(axes, timeline)
            axes.set_title(title, parse_math=False)
        panels[-1].set_xlabel(f"time since the first kernel or reading, {unit}")
        figure.legend(handles=_legend([timeline for _, timeline in shown], occupancy), loc="outside lower center", ncols=3)
        return figure


def _panel(axes: Axes, timeline: Timeline) -> str:
    """Draw one GPU; returns the unit of the axis of time."""
    begin, end = timeline.edges[0], timeline.edges[-1]
    seconds, unit = next((one for one in _UNITS if end - begin >= one[0]), _UNITS[-1])
    edges = (timeline.edges - begin) / seconds
    axes.stairs(timeline.utilisation, edges, fill=True, color=ORANGE, alpha=0.15, linewidth=0)
    axes.stairs(timeline.utilisation, edges, baseline=None, color=ORANGE, linestyle="--", linewidth=1.0)
    occupancy = np.where(timeline.unknown <= _MOST_UNKNOWN, timeline.occupancy, np.nan)
    axes.stairs(occupancy, edges, fill=True, color=BLUE, alpha=0.3, linewidth=0)
    axes.stairs(occupancy, edges, baseline=None, color=BLUE, linewidth=1.2)
    if timeline.unknown.any():
        axes.stairs(timeline.unknown, edges, baseline=None, color=GREEN, linestyle=":", linewidth=1.0)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
    axes.grid(axis="x", visible=False)
    return unit


def _legend(timelines: list[Timeline], occupancy: str) -> list[Line2D]:
    handles: list[Line2D] = [
        Line2D([], [], color=ORANGE, linestyle="--", linewidth=1.0, label="NVML utilisation: a kernel runs"),
        Line2D([], [], color=BLUE, linewidth=1.2, label=f"GPU occupancy ({occupancy})"),
    ]
    if any(timeline.unknown.any() for timeline in timelines):
        label = "kernels of unknown occupancy alone"
        handles.append(Line2D([], [], color=GREEN, linestyle=":", linewidth=1.0, label=label))
    return handles
