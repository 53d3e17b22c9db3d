import numpy as np
import pytest

from epochcast.agent.catalog import PARTS, catalog
from epochcast.agent.windows import Windows

FAST, SLOW, RARE = catalog()["sm_active"], catalog()["temperature"], catalog()["power_limit"]
START = 1_700_000_000.0  # a multiple of 5 s


def filled(seconds: float, value_at: np.ndarray | None = None) -> tuple[Windows, np.ndarray]:
    """Return windows of 5 s after ``seconds`` of ticks at 10 Hz, and the fast metric's values; the slow one is read at 1 Hz."""
    ticks = round(seconds * 10)
    values = np.linspace(0, 1, ticks) if value_at is None else value_at
    windows = Windows([FAST, SLOW], 5.0)
    for tick in range(ticks):
        add(windows, START + tick / 10, values[tick], 40 + tick // 10 if tick % 10 == 0 else np.nan)
    return windows, values


def add(windows: Windows, time: float, *values: float) -> None:
    windows.extend(np.array([time]), np.array([values], dtype=float))


@pytest.mark.parametrize("seconds", [4.9, 9.9])
def test_no_window_is_shown_before_one_is_whole(seconds: float) -> None:
    windows, _ = filled(seconds)  # the first window may have begun before sampling did
    assert np.isnan(windows.summary()["avg"]).all()


def test_a_window_is_not_shown_once_a_silent_one_followed() -> None:
    windows, _ = filled(11)
    assert not np.isnan(windows.summary()["avg"]).all()
    add(windows, START + 21, 0.5, 50.0)
    assert np.isnan(windows.summary()["avg"]).all()


def test_a_missed_tick_is_covered_by_the_next_reading_but_a_long_silence_is_not() -> None:
    windows = Windows([FAST], 5.0)
    for time in (0.0, 0.1, 0.4, 60.0, 60.1):
        add(windows, START + time, 1.0)
    assert windows.summary()["seconds"][0] == pytest.approx(0.1 + 0.3 + 0.1)


def test_a_slow_value_stands_until_its_next_reading_failed() -> None:
    windows, _ = filled(1)
    for tick in range(10, 16):  # the reading due at 1.0 s fails
        add(windows, START + tick / 10, 0.5, np.nan)
        assert windows.summary()["last"][1] == 40
    add(windows, START + 1.6, 0.5, np.nan)
    assert np.isnan(windows.summary()["last"][1])


def test_a_clock_set_back_adds_nothing_negative() -> None:
    windows = Windows([FAST], 5.0)
    for time in (7.0, 7.1, 2.0, 2.1):
        add(windows, START + time, 1.0)
    assert windows.summary()["seconds"][0] == pytest.approx(0.2)


@pytest.mark.parametrize("step", [-3600.0, -60.0, 3600.0])
def test_after_a_clock_was_set_two_windows_at_most_are_missing(step: float) -> None:
    windows = Windows([FAST], 5.0)
    for tick in range(200):
        add(windows, START + tick / 10, 1.0)
    assert windows.summary()["avg"][0] == 1.0
    for tick in range(200, 301):
        add(windows, START + step + tick / 10, 1.0)
    assert windows.summary()["avg"][0] == 1.0


def test_a_rare_value_stands_for_a_minute_and_a_half() -> None:
    windows = Windows([FAST, RARE], 5.0)
    add(windows, START, 0.5, 700)
    add(windows, START + 89, 0.5, np.nan)
    assert windows.summary()["last"][1] == 700
    add(windows, START + 91, 0.5, np.nan)
    assert np.isnan(windows.summary()["last"][1])


@pytest.mark.parametrize("seed", range(3))
def test_rows_by_the_block_give_what_rows_one_by_one_give(seed: int) -> None:
    random = np.random.default_rng(seed)
    time = START + np.cumsum(
        random.choice([0.1, 0.1, 0.3, 1.7, 6.0, 40.0, -3.0], 200, p=[0.6, 0.2, 0.1, 0.04, 0.03, 0.02, 0.01])
    )
    values = np.where(random.random((200, 3)) < [0.1, 0.9, 0.97], np.nan, random.random((200, 3)))
    single, blocks = Windows([FAST, SLOW, RARE], 5.0), Windows([FAST, SLOW, RARE], 5.0)
    for moment, row in zip(time, values, strict=True):
        add(single, moment, *row)
    first = 0
    while first < len(time):
        last = first + int(random.integers(1, 70))
        blocks.extend(time[first:last], values[first:last])
        first = last
    one, other = single.summary(), blocks.summary()
    for part in PARTS:
        np.testing.assert_allclose(one[part], other[part], err_msg=part)
