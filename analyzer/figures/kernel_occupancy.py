"""Occupancy of a run's busiest kernels, and what limits each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..backends.occupancy.launch.kernel_names import short_name
from ..backends.occupancy.launch.kernel_table import Summary
from ..errors import InputError
from .style import BLUE, GREEN, ORANGE, drawing

_NAME_LENGTH = 60
_LIMIT = "0.45"


def kernel_occupancy_figure(kernels: pd.DataFrame, summary: Summary) -> Figure:
    """A bar per row of ``busiest`` (``launch/kernel_table.py``), the busiest at the top, with its share of the GPU time.

    Bars: launch-config occupancy; ticks: what the launch would reach with a larger grid; diamonds: achieved occupancy where ncu
    measured it; lines: mean over launches and mean weighted by time.

    Raises:
        InputError: there is no kernel.
    """
    if kernels.empty:
        raise InputError("there is no kernel to draw; give a profile in which kernels ran")
    rows = kernels.iloc[::-1]
    places = np.arange(len(rows))
    with drawing():
        figure = Figure(figsize=(10, 1.5 + 0.3 * len(rows)), layout="constrained")
        axes = figure.subplots()
        axes.barh(places, 100 * rows["grid"], height=0.6, color=BLUE, alpha=0.75)
        axes.plot(100 * rows["limit"], places, "|", color=_LIMIT, markersize=13, markeredgewidth=1.5)
        handles: list[Artist] = [
            Patch(color=BLUE, alpha=0.75, label="occupancy by launch configuration"),
            Line2D(
                [],
                [],
                color=_LIMIT,
                marker="|",
                markersize=11,
                markeredgewidth=1.5,
                linestyle="",
                label="if the grid were larger",
            ),
        ]
        if rows["achieved"].notna().any():
            axes.plot(100 * rows["achieved"], places, "D", color=ORANGE, markersize=4.5)
            handles.append(Line2D([], [], color=ORANGE, marker="D", markersize=4.5, linestyle="", label="achieved, by ncu"))
        lines: tuple[tuple[float, Literal[":", "--"], str], ...] = (
            (summary.grid.mean, ":", "mean over launches"),
            (summary.grid.time_mean, "--", "weighted by time"),
        )
        for value, style, what in lines:
            if not math.isnan(value):
                axes.axvline(100 * value, color=GREEN, linestyle=style, linewidth=1.2)
                handles.append(
                    Line2D([], [], color=GREEN, linestyle=style, linewidth=1.2, label=f"{what}: {100 * value:.1f} %")
                )
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
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return figure


def _beside(row: Mapping[Any, Any]) -> str:
    """Share of the GPU time and what limits the kernel."""
    limiter = str(row["limiter"]).replace("_", " ") if isinstance(row["limiter"], str) else "launch not known"
    share = row["share"]
    return f"{100 * share:.1f} % of time; {limiter}" if isinstance(share, float) and not math.isnan(share) else limiter
