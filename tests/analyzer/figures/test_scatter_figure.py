"""The scatter shows every pair once, in the panel of its source GPU, and the error of those that are answered."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from epochcast.analyzer.figures import scatter_figure

MEASURED = np.array([1.0, 2.0, 4.0, 8.0, 100.0])
SOURCES = np.array(["T4", "T4", "A10G", "A10G", "P100"])
TARGETS = np.array(["A10G", "P100", "T4", "P100", "T4"])


def dots(figure: Figure, panel: int) -> set[tuple[float, float]]:
    lines = [line for line in figure.axes[panel].lines if line.get_marker() not in ("None", None)]
    return {(x, y) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_each_pair_is_in_the_panel_of_its_source_and_recipe() -> None:
    figure = scatter_figure(MEASURED, {"exact": MEASURED, "double": 2 * MEASURED}, SOURCES, TARGETS)
    assert len(figure.axes) == 6  # two recipes, three sources in the order of their names
    assert dots(figure, 0) == {(4.0, 4.0), (8.0, 8.0)} and dots(figure, 1) == {(100.0, 100.0)}
    assert dots(figure, 5) == {(1.0, 2.0), (2.0, 4.0)}
    assert [axes.get_title() for axes in figure.axes[3:]] == ["from A10G: 100.0 %", "from P100: 100.0 %", "from T4: 100.0 %"]
    assert figure.axes[3].get_ylabel() == "predicted by double"


def test_all_dots_lie_within_equal_axes() -> None:
    figure = scatter_figure(MEASURED, {"far": MEASURED * np.array([0.01, 1, 1, 1, 50])}, SOURCES, TARGETS)
    for axes in figure.axes:
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_xlim()[0] < 0.01 and axes.get_xlim()[1] > 5000


def test_a_pair_without_an_answer_counts_in_no_error() -> None:
    figure = scatter_figure(MEASURED, {"some": np.array([1.1, np.nan, 4.0, 8.0, 100.0])}, SOURCES, TARGETS)
    assert figure.axes[2].get_title() == "from T4: 10.0 %"


def test_more_targets_than_looks_and_the_legend_names_each() -> None:
    names = np.array([f"GPU {number}" for number in range(6)])
    figure = scatter_figure(np.arange(1.0, 7.0), {"r": np.arange(1.0, 7.0)}, np.roll(names, 1), names)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"to {name}" for name in names]
