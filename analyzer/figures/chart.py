"""The chart of an answer: lines over sizes, bars, or ratios."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from epochcast.analyzer.figures.precisions import precisions_figure
from epochcast.analyzer.figures.ratios import ratios_figure
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing, panels_of, sizes_axis
from epochcast.analyzer.plugins.chart import Bars, Chart, Panel, Picture, Ratios

_PER_ROW = 3
_MOST_TICKS = 7
_LOOKS = ((BLUE, "o-"), (ORANGE, "s--"))


def chart_figure(chart: Picture) -> Figure:
    """Three panels in a row, ratios from 0 to 100 %; or what the other kinds say."""
    if isinstance(chart, Ratios):
        return ratios_figure(chart)
    if isinstance(chart, Bars):
        return precisions_figure(chart.seconds, chart.title)
    if not isinstance(chart, Chart):
        return chart.figure()
    columns = min(len(chart.panels), _PER_ROW)
    rows = math.ceil(len(chart.panels) / columns)
    with drawing():
        figure = Figure(figsize=(max(3.2 * columns, 6.4), 0.7 + 2.4 * rows), layout="constrained")
        panels = panels_of(figure, len(chart.panels), columns, chart.xlabel)
        for panel, axes in zip(chart.panels, panels, strict=True):
            _draw(axes, panel, chart)
        figure.supylabel(chart.ylabel, fontsize="medium")
        handles = {mark.get_label(): mark for axes in panels for mark in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=2)
        return figure


def _draw(axes: Axes, panel: Panel, chart: Chart) -> None:
    places = np.array(panel.places, dtype=float)
    for number, line in enumerate(panel.lines):
        color, form = _LOOKS[number % len(_LOOKS)]
        look: Any = {"linewidth": 1.2, "markersize": 3, "mfc": "white" if line.assumed else None, "zorder": 3 - 0.1 * number}
        axes.plot(places, np.array(line.values, dtype=float), form, color=color, label=line.name, **look)
        low, high = (np.array(end, dtype=float) for end in (line.low, line.high))
        if np.isfinite(low).any():
            axes.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0, label="90 % interval")
    if panel.mark is not None:
        axes.axvline(panel.mark, color=GREEN, linestyle=":", linewidth=1.2, label=chart.mark)
    sizes_axis(axes, places, _MOST_TICKS)
    if chart.ratio:
        axes.set_ylim(0, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(panel.title, parse_math=False)
