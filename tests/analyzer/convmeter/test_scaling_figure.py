"""Every curve has its panel; predicted, measured, intervals and turning points are drawn where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.figures.scaling import ScalingCurve, scaling_figure
from epochcast.analyzer.figures.style import save_figure

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


def test_networks_stand_four_in_a_row_and_the_rest_is_hidden() -> None:
    figure = scaling_figure([ScalingCurve(f"net {number}", SIZES, RATES) for number in range(7)], "GPUs")
    assert [axes.get_title() for axes in figure.axes[:7]] == [f"net {number}" for number in range(7)]
    assert [axes.get_visible() for axes in figure.axes] == [True] * 7 + [False]
    assert [axes.get_xlabel() for axes in figure.axes[:7]] == ["", "", "", *["GPUs"] * 4]


def test_it_is_written(tmp_path: Path) -> None:
    path = save_figure(scaling_figure([ScalingCurve("net", SIZES, RATES)], "GPUs"), tmp_path / "scaling.png")
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_a_single_size_is_no_curve() -> None:
    with pytest.raises(InputError, match=r"^there is nothing to draw with a single size"):
        scaling_figure([ScalingCurve("net", SIZES[:1], RATES[:1])], "devices")
    with pytest.raises(InputError, match="nothing to draw"):
        scaling_figure([], "devices")
