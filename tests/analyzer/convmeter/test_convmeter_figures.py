"""Figures of ConvMeter: measured against predicted steps, and throughput by devices or batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.figures.scaling import ScalingCurve, scaling_figure
from epochcast.analyzer.figures.scatter import Panel, step_figure
from epochcast.analyzer.figures.style import save_figure

MEASURED = np.array([1.0, 2.0, 4.0])
GROUPS = np.array(["A100 fp16", "A100 fp16", "cpu fp32"])


def dots(figure: Figure, panel: int) -> set[tuple[float, float]]:
    lines = [line for line in figure.axes[panel].lines if line.get_marker() not in ("None", None)]
    return {(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_a_row_per_phase_and_a_column_per_recipe() -> None:
    panels = [
        [
            Panel(f"{recipe}, {phase}", MEASURED, factor * MEASURED, GROUPS)
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
    figure = step_figure([[Panel("flops, step", MEASURED, predicted, np.full(3, "one"))]])
    assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim() == (0.5, 8.0)
    assert dots(figure, 0) == {(2.0, 0.5), (4.0, 8.0)} and not figure.legends


def test_nine_groups_look_different() -> None:
    nine = np.array([f"GPU {number}" for number in range(9)])
    figure = step_figure([[Panel("default, step", np.arange(1.0, 10), np.arange(1.0, 10), nine)]])
    handles = figure.legends[0].legend_handles
    assert len({(one.get_marker(), one.get_color()) for one in handles}) == 9


def test_a_shorter_row_leaves_its_place_empty() -> None:
    panels = [Panel(f"{recipe}, step", MEASURED, MEASURED, GROUPS) for recipe in ("default", "paper", "flops")]
    figure = step_figure([panels[:2], panels[2:]])
    assert [axes.get_title().split(",")[0] for axes in figure.axes] == ["default", "paper", "flops"]


SIZES = np.array([1.0, 2, 3, 4])
RATES = np.array([100.0, 180, 230, 240])


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_panel_shows_what_its_curve_holds() -> None:
    curve = ScalingCurve("net", SIZES, RATES, 0.9 * RATES, 1.1 * RATES, measured=RATES + 5, spread=np.ones(4), turning_point=3)
    figure = scaling_figure([curve], "devices")
    (axes,) = figure.axes
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert (list(SIZES), list(RATES)) in drawn and (list(SIZES), list(RATES + 5)) in drawn
    assert ([3, 3], [0, 1]) in drawn  # the turning point, from bottom to top
    assert axes.get_title() == "net" and axes.get_ylim()[0] == 0 and axes.get_xscale() == "linear"
    assert list(axes.get_xticks()) == [1, 2, 3, 4]
    assert legend(figure) == ["predicted", "90 % interval", "measured", "more do not pay"]


def test_batches_beyond_the_memory_are_hollow_and_wide_ranges_logarithmic() -> None:
    sizes = np.array([1.0, 8, 64])
    figure = scaling_figure([ScalingCurve("net", sizes, sizes, beyond=sizes > 8)], "batch")
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none" and line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in hollow] == [[64]]
    assert figure.axes[0].get_xscale() == "log"
    assert legend(figure) == ["predicted", "beyond the memory"]


def test_networks_stand_four_in_a_row_and_no_panel_is_empty() -> None:
    figure = scaling_figure([ScalingCurve(f"net {number}", SIZES, RATES) for number in range(7)], "GPUs")
    assert [axes.get_title() for axes in figure.axes] == [f"net {number}" for number in range(7)]
    assert [axes.get_xlabel() for axes in figure.axes[:7]] == ["", "", "", *["GPUs"] * 4]


def test_it_is_written(tmp_path: Path) -> None:
    path = save_figure(scaling_figure([ScalingCurve("net", SIZES, RATES)], "GPUs"), tmp_path / "scaling.png")
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_a_single_size_is_no_curve() -> None:
    with pytest.raises(InputError, match=r"^there is nothing to draw with a single size"):
        scaling_figure([ScalingCurve("net", SIZES[:1], RATES[:1])], "devices")
    with pytest.raises(InputError, match="nothing to draw"):
        scaling_figure([], "devices")
