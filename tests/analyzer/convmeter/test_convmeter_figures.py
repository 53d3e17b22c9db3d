"""The figure of ConvMeter's evaluation: measured against predicted steps."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from epochcast.analyzer.figures.scatter import step_figure
from epochcast.analyzer.plugins.chart import Pairs

MEASURED = np.array([1.0, 2.0, 4.0])
GROUPS = np.array(["A100 fp16", "A100 fp16", "cpu fp32"])


def dots(figure: Figure, panel: int) -> set[tuple[float, float]]:
    lines = [line for line in figure.axes[panel].lines if line.get_marker() not in ("None", None)]
    return {(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_a_row_per_phase_and_a_column_per_recipe() -> None:
    panels = [
        [
            Pairs(f"{recipe}, {phase}", MEASURED, factor * MEASURED, GROUPS)
            for recipe, factor in (("default", 1.0), ("paper", 1.5))
        ]
        for phase in ("forward", "backward", "step")
    ]
    figure = step_figure(panels)
    assert [axes.get_title() for axes in figure.axes][:3] == [
        "default, forward: 0.0 %",
        "paper, forward: 50.0 %",
        "default, backward: 0.0 %",
    ]
    assert len(figure.axes) == 6 and dots(figure, 1) == {(1.0, 1.5), (2.0, 3.0), (4.0, 6.0)}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A100 fp16", "cpu fp32"]


def test_what_is_far_off_stands_on_the_edge_and_what_has_no_answer_nowhere() -> None:
    predicted = np.array([np.nan, 1e-9, 1e9])
    figure = step_figure([[Pairs("flops, step", MEASURED, predicted, np.full(3, "one"))]])
    assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim() == (0.5, 8.0)
    assert dots(figure, 0) == {(2.0, 0.5), (4.0, 8.0)} and not figure.legends


def test_nine_groups_look_different() -> None:
    nine = np.array([f"GPU {number}" for number in range(9)])
    figure = step_figure([[Pairs("default, step", np.arange(1.0, 10), np.arange(1.0, 10), nine)]])
    handles = figure.legends[0].legend_handles
    assert len({(one.get_marker(), one.get_color()) for one in handles}) == 9


def test_a_shorter_row_leaves_its_place_empty() -> None:
    panels = [Pairs(f"{recipe}, step", MEASURED, MEASURED, GROUPS) for recipe in ("default", "paper", "flops")]
    figure = step_figure([panels[:2], panels[2:]])
    assert [axes.get_title().split(",")[0] for axes in figure.axes] == ["default", "paper", "flops"]
