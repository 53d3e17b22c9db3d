"""Predicted against measured seconds, as in the black-box paper's Fig. 11."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from .log_axes import equal_log_axes
from .style import BLUE, GREEN, ORANGE, drawing

# Marker and colour of each target GPU, by turns.
_LOOKS = (("o", BLUE), ("s", ORANGE), ("^", GREEN), ("D", "#777777"))


def scatter_figure(
    measured: NDArray[np.float64],
    predicted: Mapping[str, NDArray[np.float64]],
    sources: NDArray[np.str_],
    targets: NDArray[np.str_],
) -> Figure:
    """One panel per recipe (row) and source GPU (column), log axes; a dot is a pair, marked by its target GPU.

    Titles tell the mean absolute percentage error; within 20 % of the measured seconds is shaded.

    Args:
        measured: seconds on the target, shape (n,).
        predicted: for each recipe seconds on the target, shape (n,), NaN where it has no answer.
        sources, targets: names of the GPUs, shape (n,) each.
    """
    gpus = np.unique(sources)
    looks = {target: _LOOKS[number % len(_LOOKS)] for number, target in enumerate(np.unique(targets))}
    known = np.concatenate([measured, *predicted.values()])
    known = known[np.isfinite(known)]
    ends = np.array([known.min() / 1.3, known.max() * 1.3])
    with drawing():
        figure = Figure(figsize=(0.5 + 2.6 * len(gpus), 0.7 + 2.7 * len(predicted)), layout="constrained")
        panels = figure.subplots(len(predicted), len(gpus), squeeze=False, sharex=True, sharey=True)
        for row, (recipe, seconds) in zip(panels, predicted.items(), strict=True):
            for axes, gpu in zip(row, gpus, strict=True):
                equal_log_axes(axes, ends)
                for target, (marker, color) in looks.items():
                    here = (sources == gpu) & (targets == target)
                    axes.plot(measured[here], seconds[here], marker, color=color, markersize=3.5, alpha=0.7, markeredgewidth=0)
                error = 100 * np.nanmean(np.abs(seconds / measured - 1)[sources == gpu])
                axes.set_title(f"from {gpu}: {error:.1f} %")
            row[0].set_ylabel(f"predicted by {recipe}")
        for axes in panels[-1]:
            axes.set_xlabel("measured")
        handles = [Line2D([], [], marker=m, color=c, linestyle="", label=f"to {target}") for target, (m, c) in looks.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return figure
