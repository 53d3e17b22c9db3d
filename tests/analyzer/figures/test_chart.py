"""The chart of an answer is legible: nothing of it lies outside, and each kind of line is in the legend once."""

import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from epochcast.analyzer.charts import chart_figure, drawing
from epochcast.analyzer.plugins.chart import Chart, Line

BATCHES = (2.0 ** np.arange(13)).tolist()


@pytest.mark.parametrize("panels", [1, 4])
def test_the_legend_lies_within_the_figure(panels: int) -> None:
    ratios = [batch / 4096 for batch in BATCHES]
    lines = [
        Line("SM occupancy", BATCHES, ratios, [ratio / 2 for ratio in ratios], ratios),
        Line("SM activity", BATCHES, [None, *ratios[1:]]),
        Line("the best", [512]),
    ]
    with drawing():
        figure = chart_figure(Chart({f"bert on {number}": lines for number in range(panels)}, "batch size", unit="%"))
        FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == ["90 % interval", "SM activity", "SM occupancy", "the best"]


def test_amounts_are_drawn_from_zero() -> None:
    lines = [Line("predicted", [1, 2, 3], [100.0, 180.0, 230.0]), Line("more do not pay off", [2])]
    figure = chart_figure(Chart({"net": lines}, "devices", "images/s"))
    (axes,) = figure.axes
    assert axes.get_ylim()[0] == 0 and axes.get_xscale() == "linear" and list(axes.get_xticks()) == [1, 2, 3]
    assert figure.get_supylabel() == "images/s"
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2, 3], [2, 2]]


def test_named_places_are_bars_and_what_does_not_fit_is_marked() -> None:
    figure = chart_figure(
        Chart({"net": [Line("fp32", ["a", "b"], [0.01, None]), Line("fp16", ["a", "b"], [0.02, math.nan])]}, "", "", "s")
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["OOM"] and axes.get_xlim() == (-0.6, 1.6)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    assert axes.yaxis.get_major_formatter()(0.01, 0) == "10 ms"
