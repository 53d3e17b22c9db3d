"""Packing policies side by side, as in Table VI of the DNN-occu paper: makespan and NVML utilisation by slowdown curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from epochcast.analyzer.backends.occupancy.packing.experiment import PolicySummary
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing

_COLORS = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00")
_HATCHES = ("", "//", "..", "\\\\", "xx")
_WIDTH = 0.8


def packing_figure(summaries: Sequence[PolicySummary]) -> Figure:
    """Bars of the mean makespan in seconds and of the mean NVML utilisation (0..1), a group per curve, a bar per policy."""
    curves = list(dict.fromkeys(summary.slowdown for summary in summaries))
    with drawing():
        figure = Figure(figsize=(max(6.0, 1.2 + 1.9 * len(curves)), 5.6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        _bars(upper, summaries, curves, "makespan")
        _bars(lower, summaries, curves, "nvml_utilisation")
        upper.set_ylabel("makespan, s")
        lower.set_ylabel("NVML utilisation")
        lower.set_ylim(0, 1)
        lower.set_xlabel("slowdown of co-located jobs")
        handles, labels = upper.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _bars(axes: Axes, summaries: Sequence[PolicySummary], curves: Sequence[str], name: str) -> None:
    policies = list(dict.fromkeys(summary.policy for summary in summaries))
    width = _WIDTH / len(policies)
    for number, policy in enumerate(policies):
        means = [summary.figures[name] for summary in summaries if summary.policy == policy]
        half = np.array([mean.high - mean.mean for mean in means])
        axes.bar(
            np.arange(len(curves)) - _WIDTH / 2 + (number + 0.5) * width,
            [mean.mean for mean in means],
            width * 0.92,
            yerr=half if np.isfinite(half).all() else None,
            color=_COLORS[number % len(_COLORS)],
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor="white",
            linewidth=0,
            capsize=2,
            error_kw={"elinewidth": 1},
            label=policy,
        )
    axes.set_xticks(np.arange(len(curves)), curves)
    axes.grid(axis="x", visible=False)
    axes.set_axisbelow(True)
