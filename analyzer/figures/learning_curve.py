"""Error on what was left out against how much was learnt from, a panel per kind of it and a line per recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .style import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#777777")
_STYLES = ("-", "--", ":")
_MARKERS = "os^Dv"


class Point(Protocol):
    """An error in percent, with its spread (NaN: a single draw), for so many of ``by``."""

    @property
    def by(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def mre(self) -> float: ...  # noqa: D102
    @property
    def spread(self) -> float: ...  # noqa: D102


def learning_curve_figure(curves: Mapping[str, Sequence[Point]]) -> Figure:
    """Curves by the name of the recipe, each with a point or more; axes of sizes are logarithmic, of errors from 0."""
    kinds = list(dict.fromkeys(point.by for curve in curves.values() for point in curve))
    with drawing():
        figure = Figure(figsize=(0.6 + 3.8 * len(kinds), 3.4), layout="constrained")
        for kind, axes in zip(kinds, figure.subplots(1, len(kinds), squeeze=False).flat, strict=True):
            sizes: set[int] = set()
            for place, (name, curve) in enumerate(curves.items()):
                own = [point for point in curve if point.by == kind]
                sizes |= {point.size for point in own}
                axes.errorbar(
                    [point.size for point in own],
                    [point.mre for point in own],
                    yerr=np.nan_to_num([point.spread for point in own]),
                    color=_COLORS[place % len(_COLORS)],
                    linestyle=_STYLES[place // len(_COLORS) % len(_STYLES)],
                    marker=_MARKERS[place % len(_MARKERS)],
                    markersize=3.5,
                    linewidth=1.2,
                    elinewidth=0.8,
                    capsize=2,
                    label=name,
                )
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator(_apart(sorted(sizes))))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_ylim(bottom=0)
            axes.set(xlabel=f"{kind} to learn from", ylabel="mean relative error, %")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))
        return figure


def _apart(sizes: Sequence[int]) -> list[int]:
    """Those whose ticks do not run into each other, the largest among them."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or size * 1.4 <= kept[-1]:
            kept.append(size)
    return kept
