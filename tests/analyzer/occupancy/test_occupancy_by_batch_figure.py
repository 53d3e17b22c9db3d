"""The figure of a batch sweep is legible: nothing of it lies outside."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from epochcast.analyzer.figures.occupancy import BatchCurve, occupancy_by_batch_figure
from epochcast.analyzer.figures.style import drawing

BATCHES = 2.0 ** np.arange(13)


@pytest.mark.parametrize("panels", [1, 4])
def test_the_legend_lies_within_the_figure(panels: int) -> None:
    curve = BatchCurve("bert on H100 SXM5", BATCHES, BATCHES / 4096, BATCHES / 8192, BATCHES / 4096, BATCHES / 4096, True, 512)
    with drawing():
        figure = occupancy_by_batch_figure([curve] * panels)
        FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
