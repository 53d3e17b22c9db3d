"""Held-but-idle seconds: worked examples, each computed by hand, and against the agent's own column."""

import numpy as np
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.derived import DerivedColumns
from epochcast.agent.sources import Device
from epochcast.analyzer.traces.held_idle import HeldIdle, held_idle_s

GIB = 2.0**30
Columns = dict[str, np.ndarray]


def ten_hertz() -> tuple[np.ndarray, Columns]:
    """A minute: nothing held for 10 s, held but idle for 20 s, at work for 25 s, idle for 5 s; memory is read once a second."""
    time = 1.7e9 + np.arange(601) / 10
    second = np.arange(601) / 10
    activity = np.where((second > 30) & (second <= 55), 0.8, 0.0)
    memory = np.where(np.arange(601) % 10 == 0, np.where(second > 10, 20 * GIB, 0.5 * GIB), np.nan)
    return time, {"gr_engine_active": activity, "memory_used": memory}


def test_a_minute_at_ten_hertz() -> None:
    assert held_idle_s(*ten_hertz()) == pytest.approx(24.1)  # memory's first reading above 1 GiB is at 11 s


def test_the_recorded_column_counts_the_same() -> None:
    time, values = ten_hertz()
    names = tuple(values)
    device = Device(0, "GPU-0", "NVIDIA H200", "gpm", tuple(catalog()[name] for name in names))
    column = DerivedColumns(device).of(time, np.column_stack([values[name] for name in names]))[:, 0]
    assert held_idle_s(time, {"held_idle": column}) == held_idle_s(time, values)
    assert held_idle_s(time, {**values, "held_idle": column}) == held_idle_s(time, values)


def test_the_column_counts_more_than_the_rule() -> None:
    """Of a scrape every 15 s it is the mean of all samples in between, which memory and activity at its end do not show."""
    time = 1.7e9 + 15.0 * np.arange(5)
    values = {
        "held_idle": np.array([0.0, 0.2, 1.0, 0.4, 0.0]),
        "memory_used": np.full(5, 9 * GIB),
        "gpu_utilization": np.ones(5),
    }
    assert held_idle_s(time, values) == pytest.approx(1.6 * 15)


@pytest.mark.parametrize("portion", [1, 7, 10, 64])
def test_rows_may_come_in_pieces(portion: int) -> None:
    time, values = ten_hertz()
    held = HeldIdle()
    for first in range(0, time.size, portion):
        part = slice(first, first + portion)
        held.add(time[part], {name: column[part] for name, column in values.items() if not np.isnan(column[part]).all()})
    assert held.seconds == pytest.approx(held_idle_s(time, values), abs=1.1)  # until memory's interval is known


def test_a_hole_counts_nothing() -> None:
    time = np.array([0.0, 1, 2, 3, 1003, 1004, 1005])
    values = {"gpu_utilization": np.zeros(7), "memory_used": np.full(7, 2 * GIB)}
    assert held_idle_s(time, values) == 5.0


def test_a_reading_that_fails_is_not_held_for_ever() -> None:
    time = np.arange(101.0)
    memory = np.where(time < 50, 4 * GIB, np.nan)
    assert held_idle_s(time, {"gpu_utilization": np.zeros(101), "memory_used": memory}) == pytest.approx(50, abs=1)


@pytest.mark.parametrize("lacking", ["memory_used", "gr_engine_active"])
def test_nothing_is_guessed_from_less(lacking: str) -> None:
    time, values = ten_hertz()
    del values[lacking]
    assert held_idle_s(time, values) is None
    assert held_idle_s(time, {**values, lacking: np.full(time.size, np.nan)}) is None


def test_busy_sms_or_power_are_no_activity() -> None:
    time, values = ten_hertz()
    values["sm_active"] = values.pop("gr_engine_active")
    assert held_idle_s(time, values) is None
