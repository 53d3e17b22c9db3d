import numpy as np
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.windows import Windows

FAST, SLOW = catalog()["sm_active"], catalog()["temperature"]
START = 1_700_000_000.0  # a multiple of 5 s


def filled(seconds: float, value_at: np.ndarray | None = None) -> tuple[Windows, np.ndarray]:
    """Return windows of 5 s after ``seconds`` of ticks at 10 Hz, and the fast metric's values; the slow one is read at 1 Hz."""
    ticks = round(seconds * 10)
    values = np.linspace(0, 1, ticks) if value_at is None else value_at
    windows = Windows([FAST, SLOW], 5.0)
    for tick in range(ticks):
        windows.add(START + tick / 10, np.array([values[tick], 40 + tick // 10 if tick % 10 == 0 else np.nan]))
    return windows, values


def test_statistics_are_of_the_last_whole_aligned_window() -> None:
    windows, values = filled(13)
    summary = windows.summary()
    second = values[50:100]
    assert summary.mean[0] == pytest.approx(second.mean())
    assert (summary.low[0], summary.high[0]) == (second.min(), second.max())
    assert (summary.mean[1], summary.low[1], summary.high[1]) == (47, 45, 49)


def test_no_window_is_shown_before_one_is_whole() -> None:
    windows, _ = filled(4.9)
    assert np.isnan(windows.summary().mean).all()


def test_a_window_is_not_shown_once_a_silent_one_followed() -> None:
    windows, _ = filled(10)
    windows.add(START + 16, np.array([0.5, 50.0]))
    assert np.isnan(windows.summary().mean).all()


def test_integral_is_value_times_time_since_the_reading_before() -> None:
    windows, values = filled(8)
    assert windows.summary().integral[0] == pytest.approx(values[1:].sum() * 0.1)


def test_a_missed_tick_is_covered_by_the_next_reading_but_a_long_silence_is_not() -> None:
    windows = Windows([FAST], 5.0)
    for time in (0.0, 0.1, 0.4, 60.0, 60.1):
        windows.add(START + time, np.array([1.0]))
    assert windows.summary().integral[0] == pytest.approx(0.1 + 0.3 + 0.1)


def test_a_blank_fast_value_is_absent_at_once() -> None:
    windows, _ = filled(1)
    windows.add(START + 1, np.array([np.nan, 41.0]))
    last = windows.summary().last
    assert np.isnan(last[0])
    assert last[1] == 41


def test_a_slow_value_stands_until_its_next_reading_failed() -> None:
    windows, _ = filled(1)
    for tick in range(10, 16):  # the reading due at 1.0 s fails
        windows.add(START + tick / 10, np.array([0.5, np.nan]))
        assert windows.summary().last[1] == 40
    windows.add(START + 1.6, np.array([0.5, np.nan]))
    assert np.isnan(windows.summary().last[1])


def test_a_clock_set_back_adds_nothing_negative() -> None:
    windows = Windows([FAST], 5.0)
    for time in (7.0, 7.1, 2.0, 2.1):
        windows.add(START + time, np.array([1.0]))
    assert windows.summary().integral[0] == pytest.approx(0.2)
