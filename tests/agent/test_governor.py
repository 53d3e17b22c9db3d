import logging
from itertools import pairwise

import pytest

from epochcast.agent.governor import FIRST_HOLD_S, Governor


def run(governor: Governor, cost: float, seconds: float, start: float = 0.0) -> list[float]:
    """Let ticks of that cost pass at the governor's own rate; return the rates taken, one per tick."""
    now, rates = start, []
    while now < start + seconds:
        governor.record(cost, now)
        rates.append(governor.hertz)
        now += 1 / governor.hertz
    return rates


@pytest.mark.parametrize(("cost", "hertz"), [(0.006, 5.0), (0.02, 2.0), (0.04, 1.0), (0.5, 1.0)])
def test_the_rate_steps_down_until_the_share_is_kept(cost: float, hertz: float) -> None:
    # 5 ms at 10 Hz are 50 ms a second; what a slower rate costs in all must not be more.
    rates = run(Governor(10.0, 0.005), cost, 60)
    assert rates[-1] == hertz
    assert sorted(set(rates), reverse=True) == [rate for rate in (10.0, 5.0, 2.0, 1.0) if rate >= hertz]


def test_one_expensive_tick_in_ten_is_the_slow_tier_and_does_not_count() -> None:
    governor = Governor(10.0, 0.005)
    for tick in range(600):
        governor.record(0.05 if tick % 10 == 0 else 0.001, tick / 10)
        assert governor.hertz == 10.0


def test_it_steps_back_up_step_by_step_once_ticks_are_cheap(caplog: pytest.LogCaptureFixture) -> None:
    governor = Governor(10.0, 0.005)
    run(governor, 0.04, 60)
    with caplog.at_level(logging.WARNING):
        rates = run(governor, 0.001, 1000, start=60)
    assert list(dict.fromkeys(rates)) == [1.0, 2.0, 5.0, 10.0]
    assert "sampling at 10 Hz instead of 5 Hz" in caplog.text


def test_a_rate_that_does_not_last_is_tried_ever_more_rarely() -> None:
    governor = Governor(10.0, 0.005)
    now, changes = 0.0, []
    while now < 3600:
        before = governor.hertz
        # Costly at full rate only, as where two calls a tick get into each other's way.
        governor.record(0.008 if before == 10 else 0.001, now)
        if governor.hertz > before:
            changes.append(now)
        now += 1 / governor.hertz
    waits = [round(later - earlier) for earlier, later in pairwise(changes)]
    assert waits[0] > FIRST_HOLD_S
    assert waits == sorted(waits)
    assert waits[-1] > 500


def test_the_way_down_in_steps_is_no_failed_try_at_a_faster_rate() -> None:
    governor = Governor(10.0, 0.005)
    run(governor, 0.04, 20)
    assert governor.hertz == 1
    rates = run(governor, 0.001, 3 * FIRST_HOLD_S + 30, start=20)
    assert rates[-1] == 10
