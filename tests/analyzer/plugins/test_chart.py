"""The chart of an answer is legible: nothing of it lies outside, and each kind of line is in the legend once."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from epochcast.analyzer.figures.chart import chart_figure
from epochcast.analyzer.figures.style import drawing
from epochcast.analyzer.plugins.chart import Chart, Line, Panel

BATCHES = (2.0 ** np.arange(13)).tolist()


@pytest.mark.parametrize("panels", [1, 4])
def test_the_legend_lies_within_the_figure(panels: int) -> None:
    ratios = [batch / 4096 for batch in BATCHES]
    lines = [Line("SM occupancy", ratios, [ratio / 2 for ratio in ratios], ratios), Line("SM activity", [None, *ratios[1:]])]
    with drawing():
        figure = chart_figure(Chart([Panel("bert on H100 SXM5", BATCHES, lines, 512)] * panels, "batch size", "the best"))
        FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == ["90 % interval", "SM activity", "SM occupancy", "the best"]


def test_amounts_are_drawn_from_zero_with_their_unit() -> None:
    line = Line("predicted", [100.0, 180.0, 230.0])
    figure = chart_figure(
        Chart([Panel("net", [1, 2, 3], [line], 2)], "devices", "more do not pay off", "images/s", ratio=False)
    )
    (axes,) = figure.axes
    assert axes.get_ylim()[0] == 0 and axes.get_xscale() == "linear" and list(axes.get_xticks()) == [1, 2, 3]
    assert figure.get_supylabel() == "images/s"
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2, 3], [2, 2]]


def test_wide_ranges_are_logarithmic_and_below_the_lowest_panels_is_what_the_sizes_are() -> None:
    panels = [Panel(f"net {number}", [1, 8, 64], [Line("predicted", [1, 8, 64])]) for number in range(5)]
    figure = chart_figure(Chart(panels, "batch", ratio=False))
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", *["batch"] * 3]
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
