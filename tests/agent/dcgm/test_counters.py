"""Throttling, errors and the like through DCGM: each there, absent, blank for a while, and refused."""

import sys
from typing import Any

import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.config import Config

# Field -> metric, and what the stand-in's 40 is in its unit.
PLAIN = {
    191: ("fan_speed", 0.4),
    253: ("memory_reserved", 40 * 2**20),
    311: ("ecc_uncorrectable_errors", 40),
    429: ("nvlink_replay_errors", 40),
}
TIMES = {240: "throttled_power_cap", 241: "throttled_thermal", 243: "throttled_board_limit", 245: "throttled_reliability"}
BITS = {0x40: "throttled_hardware_thermal", 0x80: "throttled_power_brake", 0x02: "throttled_clock_setting"}
NOT_SUPPORTED, NO_PERMISSION = 2, 3


@pytest.mark.parametrize(("number", "name", "value"), [(number, *each) for number, each in PLAIN.items()])
def test_a_field_that_is_there_absent_blank_and_refused(
    host: Any, open_dcgm: Any, read: Any, column: Any, number: int, name: str, value: float
) -> None:
    assert catalog()[name].dcgm == number
    blank = sys.modules["host_engine"].INT64_BLANK
    if number != 429:  # another field replaces it
        host.overrides[1, number] = blank + NOT_SUPPORTED
    every_second = Config(tiers={name: "slow"})
    source = open_dcgm(every_second)
    rows = read(source, 2)
    assert column(source, rows, 0, name)[1][-1] == pytest.approx(value)
    if (1, number) in host.overrides:
        assert source.devices[1].unmeasured[name] == "not supported by this GPU and driver"
    host.overrides[0, number] = blank
    rows = read(source, 3, start=2)
    assert source.blanks[0, name] >= 1
    before = source.blanks[0, name]
    assert len(column(source, rows, 0, name)[1]) <= 1
    del host.overrides[0, number]
    rows = read(source, 3, start=5)
    assert column(source, rows, 0, name)[1][-1] == pytest.approx(value)
    assert source.blanks[0, name] <= before + 1  # what was still on its way
    host.overrides[0, number] = blank + NO_PERMISSION
    if number != 429:
        assert "lacks the permission" in open_dcgm(every_second).devices[0].unmeasured[name]


@pytest.mark.parametrize(("number", "name"), TIMES.items())
def test_counters_of_time_are_shares_of_it(host: Any, open_dcgm: Any, read: Any, column: Any, number: int, name: str) -> None:
    source = open_dcgm()
    rows = read(source, 5)
    share = 0.25 if number == 240 else 0.0  # as the stand-in counts
    assert column(source, rows, 0, name)[1] == pytest.approx([share] * 4, abs=1e-3)  # the first of five has none before it
    host.overrides[0, number] = 10**18
    read(source, 2, start=5)
    host.overrides[0, number] = 0  # the driver was loaded again
    rows = read(source, 3, start=7)
    assert set(column(source, rows, 0, name)[1].tolist()) <= {0.0, 1.0}
    assert not source.blanks
    host.overrides[0, number] = sys.modules["host_engine"].INT64_BLANK + NOT_SUPPORTED
    assert open_dcgm().devices[0].unmeasured[name] == "not supported by this GPU and driver"


@pytest.mark.parametrize(("bit", "name"), BITS.items())
def test_reasons_without_a_counter_are_bits(host: Any, open_dcgm: Any, read: Any, column: Any, bit: int, name: str) -> None:
    host.overrides[0, 112] = bit
    host.overrides[1, 112] = sys.modules["host_engine"].INT64_BLANK + NOT_SUPPORTED
    source = open_dcgm()
    rows = read(source, 3)
    assert set(column(source, rows, 0, name)[1].tolist()) == {1.0}
    assert all(set(column(source, rows, 0, other)[1].tolist()) == {0.0} for other in BITS.values() if other != name)
    assert all(source.devices[1].unmeasured[other] == "not supported by this GPU and driver" for other in BITS.values())
    host.overrides[0, 112] = sys.modules["host_engine"].INT64_BLANK
    read(source, 2, start=3)
    assert source.blanks[0, name] >= 1  # a blank is no bit


def test_xid_errors_come_as_events(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm()
    read(source, 3)
    assert not source.take_xids()
    host.xids[0] += [31, 79]
    read(source, 5, start=3)
    assert source.take_xids() == [(0, 31), (0, 79)]
    assert not source.take_xids()
    assert not source.blanks


def test_on_hopper_other_fields_have_the_errors_of_nvlinks(host: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    for gpu in (0, 1):
        for number in (429, 439):
            host.overrides[gpu, number] = sys.modules["host_engine"].INT64_BLANK + NOT_SUPPORTED
        host.overrides[gpu, 499] = 7
    source = open_dcgm()
    rows = read(source, 3)
    assert column(source, rows, 0, "nvlink_replay_errors")[1][-1] == 7
    assert column(source, rows, 0, "nvlink_recovery_errors")[1][-1] == 40  # as any field of the stand-in
