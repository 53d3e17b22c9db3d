import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.sampler import Sampler, SystemClock
from epochcast.agent.sources import Device, Row, Tick
from epochcast.agent.store import DeviceStore

from .stub_source import StubSource

METRICS = (catalog()["power"],)


class ScriptedSource(StubSource):
    """Two GPUs; ``actions`` by tick number do something to the test's world while a tick is read."""

    def __init__(self) -> None:
        super().__init__("scripted", [Device(index, f"GPU-{index}", "Stub", "scripted", METRICS) for index in range(2)])
        self.ticks: list[Tick] = []
        self.actions: dict[int, Any] = {}
        self.absent: set[int] = set()

    def read(self, tick: Tick) -> Sequence[Row]:
        self.ticks.append(tick)
        action = self.actions.get(len(self.ticks) - 1)
        if action is not None:
            action()
        return [Row(device, tick.time, np.array([100.0])) for device in range(2) if device not in self.absent]


def sampler_of(source: ScriptedSource, clock: Any, tick_budget: float = 1.0) -> Sampler:
    return Sampler(source, [DeviceStore(device, 6000, 5.0) for device in source.devices], clock, tick_budget)


def times(sampler: Sampler, device: int = 0) -> list[float]:
    return sampler.stores[device].samples(-np.inf, np.inf, None)[0].tolist()


def test_sample_times_lie_on_the_grid_of_unix_time(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0437, until=3.0)
    sampler = sampler_of(source, clock)
    sampler.run()
    assert times(sampler) == [(17_000_000_001 + k) / 10 for k in range(30)]
    assert sampler.missed_ticks == 0
    assert sampler.effective_hertz == pytest.approx(10)
    clock.wait(10)  # a sampler that hangs does not go on claiming 10 Hz
    assert sampler.effective_hertz < 3


def test_missed_ticks_are_counted_and_never_made_up_for(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=2.05)
    source.actions[5] = lambda: setattr(clock, "now", clock.now + 0.35)  # tick 5 at 0.6 s lasts until 0.95 s
    sampler = sampler_of(source, clock)
    sampler.run()
    # Ticks due at 0.7 and 0.8 s are gone; that of 0.9 s, 0.05 s late, is still taken, and says so.
    due = [(17_000_000_001 + k) / 10 for k in range(20) if k not in (6, 7)]
    assert times(sampler) == pytest.approx([*due[:6], due[6] + 0.05, *due[7:]], rel=0, abs=1e-6)
    assert sampler.missed_ticks == 2
    assert [store.missed_ticks for store in sampler.stores] == [2, 2]
    # The sampler was to wake at 0.7 s and did at 0.95 s, however well that fits the tick that it then took.
    assert sampler.lateness_seconds.sum == pytest.approx(0.25, abs=1e-6)  # unix seconds resolve to 2e-7
    assert sum(sampler.lateness_seconds.counts) == 18
    assert sampler.lateness_seconds.counts[-1] == 1


def test_the_slow_tier_is_due_once_a_second_and_the_rare_one_once_a_minute_missed_or_not(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=130.05)
    source.actions[609] = lambda: setattr(clock, "now", clock.now + 0.35)  # the first ticks of a second are missed
    sampler_of(source, clock).run()
    assert [number for number, tick in enumerate(source.ticks) if tick.slow][58:63] == [580, 590, 600, 610, 618]
    assert [number for number, tick in enumerate(source.ticks) if tick.rare] == [0, 600, 1198]
    assert sum(tick.slow for tick in source.ticks) == 130


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.25, -0.25])
def test_a_clock_that_is_set_is_followed(fake_clock: Any, step: float, caplog: pytest.LogCaptureFixture) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=2.05)
    source.actions[9] = lambda: setattr(clock, "wall", clock.wall + step)
    sampler = sampler_of(source, clock)
    with caplog.at_level(logging.WARNING):
        sampler.run()
    got = np.array(times(sampler))
    assert (np.diff(got) > 0).all()
    assert np.allclose(got * 10, np.round(got * 10))
    assert got[-1] == pytest.approx(1_700_000_002.0 + step, abs=0.051)
    assert sampler.clock_steps == 1
    assert sampler.missed_ticks == 0
    assert "wall clock was set" in caplog.text


def test_a_clock_that_drifts_is_followed_without_a_step(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=10.0)
    source.actions = dict.fromkeys(range(100), lambda: setattr(clock, "wall", clock.wall + 0.0005))
    sampler = sampler_of(source, clock)
    sampler.run()
    assert np.allclose(np.diff(times(sampler)), 0.1, atol=1e-6)
    assert sampler.clock_steps == 0
    # 100 ticks x 0.5 ms of drift: the 101st tick is due 9.95 s in.
    assert len(source.ticks) == 100


def test_an_error_of_the_source_is_counted_and_logged_once_a_minute(fake_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=2.05)

    def fail() -> None:
        raise OSError("the bus is on fire")

    source.actions = dict.fromkeys((3, 4, 5), fail)
    sampler = sampler_of(source, clock)
    with caplog.at_level(logging.ERROR):
        sampler.run()
    assert sampler.read_errors == 3
    assert caplog.text.count("the bus is on fire") == 1
    assert len(times(sampler)) == 17
    assert sampler.last_success == pytest.approx(2.0)


def test_it_is_healthy_as_soon_as_a_sample_can_be_seen(fake_clock: Any) -> None:
    seen = []

    class Watched(Sampler):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "last_sample_time" and value is not None:
                seen.append((value, self.last_success))
            super().__setattr__(name, value)

    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=0.15)
    Watched(source, [DeviceStore(device, 6000, 5.0) for device in source.devices], clock, 1.0).run()
    assert seen == [(1_700_000_000.1, pytest.approx(0.1))]


def test_a_device_without_a_row_misses_its_tick_alone(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=2.05)
    source.actions = {10: lambda: source.absent.add(1), 15: lambda: source.absent.discard(1)}
    sampler = sampler_of(source, clock)
    sampler.run()
    assert (len(times(sampler, 0)), len(times(sampler, 1))) == (20, 15)
    assert [store.missed_ticks for store in sampler.stores] == [0, 5]


def test_a_source_that_needs_its_rest_is_read_up_to_half_an_interval_later(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=1.05)
    moments = []

    def rest(seconds: float) -> None:
        moments.append(clock.now)
        source.ready_at = clock.now + seconds

    source.actions = (
        {k: lambda: rest(0.103) for k in range(3)} | {3: lambda: rest(0.17)} | {4: lambda: moments.append(clock.now)}
    )
    sampler = sampler_of(source, clock)
    sampler.run()
    # Each of the first is 3 ms later than the one before; one that would be 70 ms late is not waited for in full.
    late = [0.0, 0.003, 0.006, 0.009, 0.05]
    assert moments == pytest.approx([0.1 * (k + 1) + late[k] for k in range(5)], abs=1e-6)
    due = [(17_000_000_001 + k) / 10 for k in range(10)]
    assert times(sampler) == pytest.approx([time + wait for time, wait in zip(due, [*late, *[0.0] * 5], strict=True)], abs=1e-6)
    assert sampler.lateness_seconds.sum == pytest.approx(sum(late), abs=1e-6)
    assert sampler.missed_ticks == 0


def test_ticks_that_cost_too_much_become_rarer_and_are_counted(fake_clock: Any) -> None:
    source, clock = ScriptedSource(), fake_clock(1_700_000_000.0, until=10.05)
    source.actions = dict.fromkeys(range(1000), lambda: setattr(clock, "used", clock.used + 0.03))
    sampler = sampler_of(source, clock, tick_budget=0.01)  # of two GPUs: 20 ms a tick, 0.2 s a second
    sampler.run()
    got = times(sampler)
    # Twenty ticks at 10 Hz, then 5 Hz, at which 30 ms a tick are 0.15 s a second.
    assert got[:20] == [(17_000_000_001 + k) / 10 for k in range(20)]
    assert np.allclose(np.diff(got[20:]), 0.2, atol=1e-6)
    assert sampler.target_hertz == 5
    assert sampler.missed_ticks == 0
    assert len(got) + sampler.governed_ticks == 100
    assert [store.missed_ticks for store in sampler.stores] == [0, 0]


def test_a_driver_that_waits_is_not_governed() -> None:
    source, clock = ScriptedSource(), SystemClock()
    source.hertz, source.interval = 50.0, 0.02
    source.actions = dict.fromkeys(range(24), lambda: time.sleep(0.03)) | {24: clock.stop}
    sampler = sampler_of(source, clock, tick_budget=0.01)  # of two GPUs: 20 ms a tick, all of a core
    sampler.run()
    assert sampler.target_hertz == 50
    assert sampler.missed_ticks > 0  # 30 ms do not fit into 20


class LateSource(ScriptedSource):
    """One GPU whose rows come once a second, for the second before."""

    hertz = 1.0
    lag = 1.5

    def __init__(self) -> None:
        super().__init__()
        self.devices = self.devices[:1]
        self.without: set[int] = set()

    def read(self, tick: Tick) -> Sequence[Row]:
        self.ticks.append(tick)
        self.actions.get(len(self.ticks), lambda: None)()
        first = round(tick.time * 10) - 15
        numbers = [number for number in range(first, first + 10) if number - 17_000_000_000 not in self.without]
        return [Row(0, number / 10, np.array([1.0])) for number in numbers]


def test_rows_that_come_after_their_time_are_counted_by_their_times(fake_clock: Any) -> None:
    source, clock = LateSource(), fake_clock(1_700_000_000.0, until=20.5)
    source.without = {20, 21, 55, *range(70, 100)}
    sampler = sampler_of(source, clock)
    sampler.run()
    assert sampler.stores[0].missed_ticks == 2 + 1 + 30
    assert len(times(sampler)) + sampler.stores[0].missed_ticks == 200
    assert sampler.target_hertz == 10


def test_a_silent_device_of_a_late_source_misses_its_ticks_while_it_is_silent(fake_clock: Any) -> None:
    source, clock = LateSource(), fake_clock(1_700_000_000.0, until=20.5)
    source.without = set(range(40, 1000))
    sampler = sampler_of(source, clock)
    sampler.run()
    # At the last tick, 20.0 s, all that was due by 18.5 s should have come.
    assert sampler.stores[0].missed_ticks == 185 - 39


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_misses_no_hour_of_a_late_source(fake_clock: Any, step: float) -> None:
    source, clock = LateSource(), fake_clock(1_700_000_000.0, until=30.5)
    source.actions[9] = lambda: setattr(clock, "wall", clock.wall + step)
    sampler = sampler_of(source, clock)
    sampler.run()
    assert sampler.clock_steps == 1
    assert sampler.stores[0].missed_ticks <= 60
