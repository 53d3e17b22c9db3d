"""Packing policies side by side, as in Table VI of the DNN-occu paper: makespan and NVML utilisation by slowdown curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00", "#56b4e9")
_HATCHES = ("", "//", "..", "\\\\", "xx", "++")
_WIDTH = 0.8

Bars = Mapping[str, Mapping[str, tuple[float, float, float]]]
"""By slowdown curve and policy: value, low and high end of its interval (NaN: none)."""


def packing_figure(makespan: Bars, nvml_utilisation: Bars) -> Figure:
    """Bars of the mean makespan in seconds and of the mean NVML utilisation (0..1), a group per curve, a bar per policy."""
    with drawing():
        figure = Figure(figsize=(max(6.0, 1.2 + 1.9 * len(makespan)), 5.6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        _bars(upper, makespan)
        _bars(lower, nvml_utilisation)
        upper.set_ylabel("makespan, s")
        lower.set_ylabel("NVML utilisation")
        lower.set_ylim(0, 1)
        lower.set_xlabel("slowdown of co-located jobs")
        handles, labels = upper.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
        return figure


def _bars(axes: Axes, values: Bars) -> None:
    policies = list(next(iter(values.values())))
    width = _WIDTH / len(policies)
    for number, policy in enumerate(policies):
        mean, low, high = np.array([values[curve][policy] for curve in values], dtype=float).T
        spread = np.nan_to_num(np.stack([mean - low, high - mean]))
        axes.bar(
            np.arange(len(values)) - _WIDTH / 2 + (number + 0.5) * width,
            mean,
            width * 0.92,
            yerr=spread if spread.any() else None,
            color=_COLORS[number % len(_COLORS)],
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor="white",
            linewidth=0,
            capsize=2,
            error_kw={"elinewidth": 1},
            label=policy,
        )
    axes.set_xticks(np.arange(len(values)), list(values))
    axes.grid(axis="x", visible=False)
    axes.set_axisbelow(True)
