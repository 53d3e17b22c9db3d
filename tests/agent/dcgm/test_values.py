"""Values of DCGM: each once, in order, at its own interval, in base units; blanks are absent."""

import sys
from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize(("jitter", "apart"), [(30_000, 0), (60_000, 0), (0, 50_000)])
def test_every_sample_is_in_a_row_of_its_time(
    reset: Any, open_dcgm: Any, read: Any, column: Any, jitter: int, apart: int
) -> None:
    host = reset(jitter=jitter)
    source = open_dcgm()
    began = host.now / 1e6
    for watch in host.watches:
        if 1002 in host.field_groups[watch.fields][1]:
            watch.due += apart  # the profiling module has a clock of its own
    rows = read(source, 20)
    for device in (0, 1):
        times = np.array([row.time for row in rows if row.device == device])
        assert (np.diff(times) > 0).all()
        for number, name in ((1002, "sm_active"), (157, "power"), (156, "energy")):
            time, _ = column(source, rows, device, name)
            stamps = np.sort([ts / 1e6 for ts, _, _ in host.cache[1, device, number]])
            stamps = stamps[(stamps > began) & (stamps < times[-1] - 0.005)]
            assert len(stamps) > 15
            first = np.searchsorted(time, stamps[0] - 0.005)
            assert np.abs(time[first : first + len(stamps)] - stamps).max() <= 0.005
    assert not source.blanks


def test_a_sample_that_comes_twice_is_one(host: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    source = open_dcgm()
    read(source, 2)
    for values in host.cache.values():
        values += values
    rows = read(source, 2, start=2)
    assert np.allclose(np.diff(column(source, rows, 0, "power")[0]), 0.1, atol=2e-3)


def test_tiers_are_watched_at_their_own_interval(host: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    source = open_dcgm()
    intervals = {number: watch.interval for watch in host.watches for number in host.field_groups[watch.fields][1]}
    assert intervals[1002] == intervals[157] == 100_000
    assert intervals[203] == intervals[156] == 1_000_000
    assert intervals[164] == 60_000_000
    assert {watch.keep_age for watch in host.watches} == {30.0, 120.0}
    rows = read(source, 4)
    assert len(column(source, rows, 0, "gpu_utilization")[0]) == 4
    assert len(column(source, rows, 0, "power_limit")[0]) == 1


def test_blanks_are_absent_and_counted_once_each(host: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    source = open_dcgm()
    rows = read(source, 2)
    before = len(column(source, rows, 0, "power")[0])
    engine = sys.modules["host_engine"]
    host.overrides[0, 156] = engine.INT64_BLANK
    host.overrides[0, 1002] = engine.FP64_BLANK + 1
    host.overrides[0, 1003] = float("nan")
    host.overrides[0, 157] = sys.modules["dcgm_structs"].DCGMError(-18)  # GPU is lost
    rows += read(source, 1, start=2)
    for name in ("energy", "sm_active", "sm_occupancy", "power"):
        del host.overrides[0, {"energy": 156, "sm_active": 1002, "sm_occupancy": 1003, "power": 157}[name]]
    rows += read(source, 2, start=3)
    assert source.blanks == {(0, "energy"): 1, (0, "sm_active"): 10, (0, "sm_occupancy"): 10, (0, "power"): 10}
    assert len(column(source, rows, 0, "power")[0]) == before + 30 - 10
    assert (column(source, rows, 0, "sm_active")[1] < 2).all()


def test_a_text_where_a_number_is_due_is_a_blank(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    read(source, 2)
    host.overrides[0, 150] = "hot"
    read(source, 3, start=2)  # the newest one's tick is still open then
    assert source.blanks == {(0, "temperature"): 2}


def test_the_history_of_other_clients_is_left_alone(host: Any, open_dcgm: Any, read: Any) -> None:
    first = open_dcgm()
    host.advance(20.0)
    second = open_dcgm()
    assert min(row.time for row in read(second, 1)) > host.now / 1e6 - 2
    assert first is not second


def test_what_waits_for_a_late_reader_is_not_lost(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    rows = read(source, 1)
    host.advance(20.0)
    rows += read(source, 1, start=21)
    times = [row.time for row in rows if row.device == 0]
    assert np.allclose(np.diff(times), 0.1, atol=2e-3)
    assert times[-1] - times[0] > 20


def test_an_engine_whose_clock_is_set_back_goes_on(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    read(source, 3)
    host.now -= 3_600_000_000
    for watch in host.watches:
        watch.due -= 3_600_000_000
    rows = read(source, 3, start=3)
    assert rows
    assert rows[-1].time == pytest.approx(host.now / 1e6, abs=0.5)
