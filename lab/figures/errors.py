"""Errors of an evaluation: by configuration (as in the distributed paper's Fig. 2), and by how much was learnt from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from epochcast.analyzer.charts import BLUE, GREEN, ORANGE, drawing, plain_log_axis

Configuration = tuple[str, tuple[int, int, int]]

_LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), ("#777777", "D"), ("#cc79a7", "v"), ("black", "x"))
_MOST = 30  # configurations side by side
_LEAST = 0.3  # percent; smaller errors are drawn here, or the axis would be about them


def errors_figure(errors: Mapping[str, Mapping[Configuration, float]]) -> Figure:
    """A mark per recipe at each (data, tensor, pipeline), log axis; a panel for each precision, in rows of 30 at most.

    Args:
        errors: MAPE in percent by recipe, then by precision and degrees; the first recipe is drawn larger.
    """
    known = {configuration for by in errors.values() for configuration in by}
    rows: list[tuple[str, Sequence[tuple[int, int, int]]]] = []
    for precision in sorted({name for name, _ in known}):
        own = sorted(degrees for name, degrees in known if name == precision)
        size = math.ceil(len(own) / math.ceil(len(own) / _MOST))
        rows += [(precision, own[begin : begin + size]) for begin in range(0, len(own), size)]
    widest = max(len(row) for _, row in rows)
    with drawing():
        figure = Figure(figsize=(max(7.5, 1.3 + 0.31 * widest), 0.7 + 2.5 * len(rows)), layout="constrained")
        panels = figure.subplots(len(rows), 1, squeeze=False, sharey=True)[:, 0]
        for axes, (precision, row) in zip(panels, rows, strict=True):
            _panel(axes, errors, precision, row)
            axes.set_xlim(-0.7, widest - 0.3)
        plain_log_axis(panels[0].yaxis, " %")
        panels[-1].set_xlabel("degrees of data, tensor and pipeline parallelism")
        handles = [
            Line2D(
                [], [], color=_LOOKS[number % len(_LOOKS)][0], marker=_LOOKS[number % len(_LOOKS)][1], linestyle="", label=name
            )
            for number, name in enumerate(errors)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        return figure


def _panel(
    axes: Axes, errors: Mapping[str, Mapping[Configuration, float]], precision: str, row: Sequence[tuple[int, int, int]]
) -> None:
    for number, by in reversed(list(enumerate(errors.values()))):
        color, marker = _LOOKS[number % len(_LOOKS)]
        heights = [max(by.get((precision, degrees), math.nan), _LEAST) for degrees in row]
        axes.plot(
            range(len(row)),
            heights,
            marker,
            color=color,
            markersize=5.5 if number == 0 else 4,
            alpha=1.0 if number == 0 else 0.75,
            markeredgewidth=1.0 if marker == "x" else 0,
            linestyle="",
        )
    axes.set_xticks(range(len(row)), [f"{d},{t},{p}" for d, t, p in row], rotation=60, ha="right", rotation_mode="anchor")
    axes.set_ylabel("MAPE")
    axes.set_title(precision, loc="right")
