"""Predicted times on other GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ...regressor import Prediction
from ...regressor.prediction import by_data_sheet
from .style import BLUE, ORANGE, drawing


def predictions_figure(predictions: Sequence[Prediction], source: str) -> Figure:
    """Predicted time on every GPU relative to the ``source`` GPU, with its 90 % interval, on a log axis.

    Where nothing was measured on one of the two GPUs, the point is hollow.
    """
    ranked = sorted(predictions, key=lambda prediction: prediction.ratio, reverse=True)
    with drawing():
        figure = Figure(figsize=(10, 0.9 + 0.24 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        for row, prediction in enumerate(ranked):
            interval, color = [prediction.ratio_low, prediction.ratio_high], ORANGE if prediction.gpu == source else BLUE
            axes.plot(interval, [row, row], color=BLUE, linewidth=2.5, alpha=0.45, solid_capstyle="butt")
            fill = "white" if by_data_sheet(prediction.route) else color
            axes.plot(prediction.ratio, row, "o", color=color, markerfacecolor=fill, markersize=5)
        axes.axvline(1, color=ORANGE, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_yticks(range(len(ranked)), [prediction.gpu for prediction in ranked])
        axes.set_ylim(-0.7, len(ranked) - 0.3)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        hollow = "; hollow: by a data sheet" * any(by_data_sheet(prediction.route) for prediction in ranked)
        axes.set_xlabel(f"time relative to the {source} (dashed); bar: 90 % interval; left is faster{hollow}")
        return figure
