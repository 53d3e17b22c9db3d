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
