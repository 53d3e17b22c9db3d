"""Predicted times on other GPUs."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from epochcast.analyzer.figures.style import BLUE, ORANGE, drawing
from epochcast.analyzer.plugins.chart import Ratios


def ratios_figure(chart: Ratios) -> Figure:
    """Predicted time on every GPU relative to the source, with its 90 % interval, on a log axis.

    Where nothing was measured on one of the two GPUs, the point is hollow.
    """
    ranked = sorted(chart.rows, key=lambda row: row.value, reverse=True)
    with drawing():
        figure = Figure(figsize=(10, 0.9 + 0.24 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        for place, row in enumerate(ranked):
            color = ORANGE if row.name == chart.source else BLUE
            axes.plot([row.low, row.high], [place, place], color=BLUE, linewidth=2.5, alpha=0.45, solid_capstyle="butt")
            fill = "white" if row.assumed else color
            axes.plot(row.value, place, "o", color=color, markerfacecolor=fill, markersize=5)
        axes.axvline(1, color=ORANGE, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_yticks(range(len(ranked)), [row.name for row in ranked])
        axes.set_ylim(-0.7, len(ranked) - 0.3)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        hollow = "; hollow: from a data sheet" * any(row.assumed for row in ranked)
        axes.set_xlabel(f"time relative to the {chart.source} (dashed); bar: 90 % interval; left is faster{hollow}")
        return figure
