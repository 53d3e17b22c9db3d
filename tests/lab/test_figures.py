"""Figures of the papers: that each is drawn, with its errors in the titles."""

import numpy as np

from lab.figures.errors import errors_figure
from lab.figures.scatter import Pairs, scatter_figure, step_figure

MEASURED = np.array([1.0, 2.0, 4.0, 8.0])
GPUS = np.array(["T4", "T4", "A10G", "A10G"])


def test_predicted_over_measured_by_source_and_target() -> None:
    figure = scatter_figure(MEASURED, {"exact": MEASURED, "double": 2 * MEASURED}, GPUS, GPUS[::-1])
    assert [axes.get_title() for axes in figure.axes[::2]] == ["from A10G: 0.0 %", "from A10G: 100.0 %"]


def test_steps_by_form() -> None:
    predicted = np.array([1.1, np.nan, 4.4, 8.8])
    figure = step_figure([[Pairs("paper, step", MEASURED, predicted, GPUS)]])
    assert figure.axes[0].get_title() == "paper, step: 10.0 %"


def test_errors_by_precision() -> None:
    mape = {"default": {("fp16", (4, 2, 1)): 5.0}, "vtrain-style": {("fp16", (4, 2, 1)): 147.85}}
    (axes,) = errors_figure(mape).axes
    assert [line.get_ydata()[0] for line in axes.lines] == [147.85, 5.0]
