"""How time and cost differ by GPU, relative to the best in each, as in the black-box paper's Fig. 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ...regressor.prediction import Estimate
from ..errors import InputError
from .log_axes import plain_log_axis
from .recommended import cost_interval, short_name, time_interval
from .style import BLUE, ORANGE, drawing

if TYPE_CHECKING:  # to draw is not to recommend: ranking loads scipy.stats, which takes longer than a figure
    from ..recommendation import Recommendation

_WHISKER = "0.45"  # seen on light and dark pages, and on the bars
_ALPHA = 0.75


def relative_figure(recommendations: Sequence[Recommendation], source_gpu: str) -> Figure:
    """Relative time (a) and cost (b) of each GPU on log axes, fastest first, with 90 % intervals; 1 is the best of the panel.

    A GPU's bar is that of its cheapest instance, which is named. ``source_gpu`` is marked by its colour, the best by a star.

    Raises InputError if there are no recommendations.
    """
    if not recommendations:
        raise InputError("no instance keeps the limits, so there is nothing to draw; loosen them")
    cheapest: dict[str, Recommendation] = {}
    for row in sorted(recommendations, key=lambda row: cost_interval(row).value):
        cheapest.setdefault(row.instance.gpu, row)
    rows = sorted(cheapest.values(), key=lambda row: time_interval(row).value, reverse=True)
    with drawing():
        figure = Figure(figsize=(10, 1.4 + 0.24 * len(rows)), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        _panel(panels[0], rows, time_interval, source_gpu)
        _panel(panels[1], rows, cost_interval, source_gpu)
        panels[0].set_yticks(range(len(rows)), [row.instance.gpu for row in rows], parse_math=False)
        panels[0].set_ylim(-0.7, len(rows) - 0.3)
        panels[0].set_xlabel("(a) time relative to the fastest (★)")
        panels[1].set_xlabel("(b) cost relative to the cheapest (★)")
        names = panels[1].secondary_yaxis("right")
        names.set_yticks(range(len(rows)), [short_name(row) for row in rows], parse_math=False)
        names.tick_params(length=0)
        names.spines[:].set_visible(False)
        marks: dict[str, Artist] = {"90 % interval": Line2D([], [], color=_WHISKER, linewidth=1)}
        if source_gpu in cheapest:
            marks[f"{source_gpu}, where it was measured"] = Patch(color=ORANGE, alpha=_ALPHA)
        figure.legend(list(marks.values()), list(marks), loc="outside lower left", ncols=len(marks))
        return figure


def _panel(axes: Axes, rows: Sequence[Recommendation], interval: Callable[[Recommendation], Estimate], source_gpu: str) -> None:
    best = min(interval(row).value for row in rows)
    shown = [interval(row).times(1 / best) for row in rows]
    values = np.array([one.value for one in shown])
    ends = np.array([[one.value - one.low for one in shown], [one.high - one.value for one in shown]])
    colors = [ORANGE if row.instance.gpu == source_gpu else BLUE for row in rows]
    axes.barh(range(len(rows)), values - 1, left=1, height=0.62, color=colors, alpha=_ALPHA)
    axes.errorbar(values, range(len(rows)), xerr=ends, fmt="none", ecolor=_WHISKER, elinewidth=1, capsize=2)
    number = int(values.argmin())
    axes.plot(1, number, "*", color=colors[number], markersize=9)
    plain_log_axis(axes.xaxis, "×")
    axes.grid(axis="y", visible=False)
    axes.set_axisbelow(True)
