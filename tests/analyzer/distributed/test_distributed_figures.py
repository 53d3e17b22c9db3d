"""The figures of distributed training: every number at its place, and what is out of memory marked."""

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from epochcast.analyzer.figures import save_figure
from epochcast.analyzer.figures.precisions import precisions_figure

SECONDS = {
    ((8, 1, 1), "fp32"): None,
    ((8, 1, 1), "amp-bf16"): 0.25,
    ((2, 4, 1), "fp32"): 0.8,
    ((2, 4, 1), "amp-bf16"): 0.5,
}


def test_bars_are_seconds_and_out_of_memory_is_marked(tmp_path: Path) -> None:
    figure = precisions_figure(SECONDS, "LLaMA, $8 of a GPU")
    (axes,) = figure.axes
    heights = sorted(bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle) and bar.get_height() > 0)
    assert heights == pytest.approx([250, 500, 800]), "below a second: ms"
    assert axes.get_ylabel() == "one iteration [ms]"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["(8, 1, 1)", "(2, 4, 1)"]
    (mark,) = axes.texts
    assert mark.get_text() == "OOM" and mark.xy[0] == pytest.approx(-0.21), "at the place of the first group's first bar"
    assert save_figure(figure, tmp_path / "precisions.png").stat().st_size > 1000


def test_all_out_of_memory_is_drawn(tmp_path: Path) -> None:
    figure = precisions_figure({((8, 1, 1), "fp32"): None}, "too large")
    assert [text.get_text() for text in figure.axes[0].texts] == ["OOM"]
    save_figure(figure, tmp_path / "oom.svg")
