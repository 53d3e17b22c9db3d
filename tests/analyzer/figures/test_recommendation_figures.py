"""What the figures of a recommendation show: the front with names and intervals, limits, and how GPUs differ."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from epochcast.analyzer.charts import BLUE, cost_figure, page_svg, save_figure
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.rank import Placement
from epochcast.regressor import Prediction
from epochcast.regressor.prediction import Estimate


def row(name: str, gpu: str, seconds: float, usd_per_hour: float, *, pareto: bool = False, **more: object) -> Placement:
    instance = Instance("aws", name, gpu, 1, "us-east-1", usd_per_hour, "a page", date(2026, 2, 9))
    time = Estimate(seconds, 0.8 * seconds, 1.3 * seconds)
    ratio = seconds / 100
    prediction = Prediction(gpu, ratio, time.value, time.low, time.high, "test", 0.8 * ratio, 1.3 * ratio, "speeds", 1.0, ())
    known = Placement(instance, "on-demand", usd_per_hour, prediction, time, True, pareto)
    return replace(known, **more)  # type: ignore[arg-type]


FAST = row("fast", "H100 SXM5", 20, 7.2, pareto=True)
CHEAP = row("cheap", "T4", 100, 0.72, pareto=True)
DEAR = row("expensive", "T4", 100, 3.6)
THREE = [CHEAP, DEAR, FAST]


def many(count: int) -> list[Placement]:
    """A front whose neighbours are hard to tell apart."""
    return [row(f"instance-{k}.metal", f"GPU {k}", 100 * 1.03**k, 10 / 1.06**k, pareto=True) for k in range(count)]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def explained(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[-1].get_texts()]


def dots(figure: Figure, *, hollow: bool = False) -> list[tuple[float, float]]:
    """Places of the instances off the front: those that keep the limits, or the hollow ones that do not."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "o" and line.get_color() == BLUE]
    return [tuple(place) for line in lines if (line.get_markerfacecolor() == "none") is hollow for place in line.get_xydata()]  # type: ignore[misc]


def test_the_front_is_numbered_and_named_from_the_fastest_on_the_rest_are_dots() -> None:
    figure = cost_figure(THREE)
    assert names(figure) == ["fast (H100 SXM5)", "cheap (T4)"]
    numbers = {line.get_marker(): line for line in figure.axes[0].lines if str(line.get_marker()).startswith("$")}
    assert [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in numbers.values()] == [  # type: ignore[index]
        pytest.approx((20, 0.04)),
        pytest.approx((100, 0.02)),
    ]
    assert list(numbers) == ["$1$", "$2$"]
    assert dots(figure) == [pytest.approx((100, 0.1))]


def test_what_misses_a_limit_or_does_not_fit_is_hollow() -> None:
    rows = [FAST, row("late", "T4", 400, 0.1), row("big", "P4", 50, 1.8, fits=False), row("fine", "A10", 60, 6.0)]
    figure = cost_figure(rows, deadline_s=300, budget_usd=0.9)
    assert dots(figure, hollow=True) == [pytest.approx((50, 0.025)), pytest.approx((400, 400 * 0.1 / 3600))]
    assert dots(figure) == [pytest.approx((60, 0.1))]
    assert explained(figure) == ["90 % interval", "others", "too little memory, or over a limit", "deadline", "budget"]
    assert dots(cost_figure([FAST, rows[1]]), hollow=True) == []


def test_time_is_told_in_a_fitting_unit_and_the_deadline_with_it() -> None:
    hours = [replace(one, seconds=one.seconds.times(360)) for one in THREE if one.seconds]
    figure = cost_figure(hours, deadline_s=9000)
    assert figure.axes[0].get_xlabel() == "time [h]"
    assert any(list(np.asarray(line.get_xdata())) == [2.5, 2.5] for line in figure.axes[0].lines)


def test_ratios_are_shown_where_there_are_no_seconds() -> None:
    figure = cost_figure([replace(one, seconds=None) for one in THREE])
    assert "time relative to the source GPU" in figure.axes[0].get_xlabel()
    assert "cost of one hour's work" in figure.axes[0].get_ylabel()
    assert dots(figure) == [pytest.approx((1.0, 3.6))]


@pytest.mark.parametrize("count", [2, 25])
def test_no_text_overlaps_another_or_leaves_the_page(count: int) -> None:
    figure = cost_figure([*many(count), DEAR])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    texts = [text for legend in figure.legends for text in legend.get_texts()] + [axes.xaxis.label, axes.yaxis.label]
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        texts += [label for tick in ticks for label in (tick.label1, tick.label2)]
    boxes = [text.get_window_extent().padded(-1) for text in texts if text.get_text() and text.get_visible()]
    assert len(boxes) > count
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_names_of_a_price_file_are_drawn_as_they_are_and_cut_where_too_long(tmp_path: Path) -> None:
    hostile = [row("$\\frac{$ & <b>", "A10", 30, 1.0, pareto=True), row("x" * 500, "T4", 60, 0.3, pareto=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert save_figure(cost_figure(hostile), tmp_path / "figure.png").stat().st_size > 5000
        ElementTree.fromstring(page_svg(cost_figure(hostile)))
    assert names(cost_figure(hostile)) == ["$\\frac{$ & <b> (A10)", "x" * 31 + "… (T4)"]


def test_nothing_to_draw_is_one_sentence() -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        cost_figure([])
