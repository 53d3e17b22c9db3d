"""Numbers, axes and plots."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer import words
from epochcast.analyzer.service.page.axis import axis_around, axis_between, axis_from_zero
from epochcast.analyzer.service.page.plots import epoch_plot, trend
from epochcast.analyzer.telemetry.gpu_report import EpochRecord

_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def read_length(text: str) -> float:
    """Seconds of what `words.length` wrote."""
    parts = re.findall(r"([\d.,]+)\s(ms|s|min|h|d)\b", text)
    return sum(float(number.replace(",", "")) * _SECONDS[unit] for number, unit in parts)


@given(st.floats(1e-4, 1e8))
def test_a_length_reads_as_what_it_is(seconds: float) -> None:
    text = words.length(seconds)
    assert read_length(text) == pytest.approx(seconds, rel=0.011)
    assert " " not in text  # no line may end between number and unit
    assert "e" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2154, "215 ms"), (92.14, "92.1 s"), (184, "3 min 4 s"), (7200, "2 h"), (9061, "2 h 31 min"), (273600, "3 d 4 h")],
)
def test_lengths(seconds: float, text: str) -> None:
    assert words.length(seconds).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0.00345, "$0.0034"), (0.06, "$0.060"), (0.412, "$0.41"), (1.01, "$1.01"), (1234.5, "$1,234"), (-2.5, "−$2.50")],
)
def test_money(usd: float, text: str) -> None:
    assert re.sub("<[^>]+>", "", words.usd(usd)) == text
    assert f'value="{usd}"' in words.usd(usd)


def test_what_is_not_known_is_a_dash() -> None:
    assert [str(show(None)) for show in (words.seconds, words.usd, words.share, words.times)] == ["–"] * 4
    assert words.usd(math.nan) == "–"


def test_ages_and_clocks_bear_any_moment() -> None:
    assert "never" in words.ago(None, 5.0)
    assert "12\N{NO-BREAK SPACE}s ago" in words.ago(88.0, 100.0)
    assert "now" in words.ago(1e300, 100.0)  # the clock of another machine
    assert words.clock(0.0) == "1970-01-01 00:00:00 UTC"


_positive = st.floats(1e-4, 1e6)


@given(st.lists(_positive, min_size=1, max_size=20))
def test_places_on_an_axis_keep_the_order_and_the_ticks_stand_on_it(values: list[float]) -> None:
    for axis in (axis_from_zero(values), axis_around(values, 0.1)):
        places = [axis.place(value) for value in sorted(values)]
        assert places == sorted(places)
        assert places[0] >= 0 and places[-1] <= 100
        assert all(axis.low * (1 - 1e-9) <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks)
        assert len(axis.ticks) <= 12


def test_what_differs_much_is_on_a_logarithmic_axis() -> None:
    assert axis_from_zero([10.0, 500.0]).logarithmic
    axis = axis_from_zero([10.0, 50.0])
    assert not axis.logarithmic
    assert axis.low == 0
    assert axis.ticks == (0, 20, 40)
    assert axis_between(0, 66, 6).ticks == (0, 20, 40, 60)


def test_an_epoch_stands_where_it_was_as_long_as_it_was() -> None:
    epochs = [EpochRecord(100.0 + 50 * n, 150.0 + 50 * n, 0.9, 100.0) for n in range(4)]
    plot = epoch_plot({"a": epochs}, since=100.0)
    assert plot is not None
    assert [mark.left for mark in plot.marks] == [0, 25, 50, 75]
    assert [mark.right for mark in plot.marks] == [25, 50, 75, 100]
    assert len({mark.top for mark in plot.marks}) == 1
    assert epoch_plot({"a": []}, since=0.0) is None


def test_an_unsure_epoch_and_a_straggler_are_told_apart() -> None:
    one, two = EpochRecord(0.0, 60.0, 0.9, 0.0), EpochRecord(0.0, 80.0, 0.2, 0.0)
    plot = epoch_plot({"a": [one], "b": [two]}, since=0.0, expected=(58.0, 62.0), names={"b": "node GPU 1"}, standing_out="b")
    assert plot is not None and plot.band is not None
    fine, slow = plot.marks
    assert (fine.unsure, fine.standing_out, slow.unsure, slow.standing_out) == (False, False, True, True)
    assert slow.top < fine.top  # longer is higher
    assert plot.band[0] < fine.top < plot.band[0] + plot.band[1]
    assert slow.says.startswith("node GPU 1: ")


def test_a_trend_needs_three_epochs() -> None:
    epochs = [EpochRecord(50.0 * n, 50.0 * n + 50, 0.9, 0.0) for n in range(3)]
    assert trend(epochs[:2]) is None
    points = trend(epochs)
    assert points is not None and len(points.split()) == 3
