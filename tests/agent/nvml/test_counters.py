"""Throttling, errors, codecs and the like: each there, absent, blank for a while, and refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent.sources import nvml_fields
from epochcast.agent.sources.nvml import NvmlSource

NOT_SUPPORTED, UNKNOWN, NO_PERMISSION = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_UNKNOWN,
    pynvml.NVML_ERROR_NO_PERMISSION,
)

Driver = Any
Open = Callable[..., NvmlSource]

# Field value -> share of time; bit of the clocks event reasons.
SHARES = {
    74: ("throttled_power_cap", 0x4),
    269: ("throttled_thermal", 0x20),
    270: ("throttled_hardware_thermal", 0x40),
    271: ("throttled_power_brake", 0x80),
}


@pytest.mark.parametrize(
    ("number", "name", "model"),
    [
        (4, "ecc_uncorrectable_errors", "h200"),
        (82, "memory_temperature", "h200"),
        (52, "nvlink_replay_errors", "a100"),  # which counts for all its NVLinks together
    ],
)
def test_a_field_that_is_there_absent_blank_and_refused(
    open_source: Open, nvml_driver: Driver, rows: Any, number: int, name: str, model: str
) -> None:
    node = f"gpus 2\ngpu * {model}\n"
    source = open_source(f"{node}value {number} 7 0\nfield {number} {NOT_SUPPORTED} 1")
    got = rows(source, 0.0)
    assert got["0"][name] == 7
    assert name not in got["1"]
    assert "Not Supported" in source.devices[1].unmeasured[name]
    nvml_driver(f"{node}value {number} 7 0\nfield {number} {UNKNOWN} 0")
    assert np.isnan(rows(source, 60.0)["0"][name])
    assert source.blanks[0, name] == 1
    nvml_driver(f"{node}value {number} 8 0")
    assert rows(source, 120.0)["0"][name] == 8
    assert open_source(f"{node}field {number} {NO_PERMISSION} *").devices[0].unmeasured[name].startswith("NVML field")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock by which rates are made: one number that the test moves."""
    now = [100.0]
    monkeypatch.setattr(nvml_fields, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("number", "name"), [(number, name) for number, (name, _) in SHARES.items()])
def test_counters_of_time_are_shares_of_it(
    open_source: Open, nvml_driver: Driver, rows: Any, clock: list[float], number: int, name: str
) -> None:
    source = open_source(f"gpus 1\nvalue {number} 5000000000 0")

    def share(nanoseconds: int, seconds: float) -> float:
        clock[0] += seconds
        nvml_driver(f"gpus 1\nvalue {number} {nanoseconds} 0")
        return float(rows(source, clock[0] - 100, rare=False)["0"][name])

    assert np.isnan(share(5_000_000_000, 0.5))  # how fast it grows is not known yet
    assert not source.blanks
    assert share(5_250_000_000, 1.0) == pytest.approx(0.25)
    assert share(5_250_000_000, 1.0) == 0
    assert share(6_300_000_000, 1.0) == 1  # the driver counts by steps of its own: 1.05 s in a second
    assert np.isnan(share(0, 1.0))  # the driver was reloaded
    assert source.blanks == {(0, name): 1}
    assert share(100_000_000, 1.0) == pytest.approx(0.1)


@pytest.mark.parametrize(("number", "name", "bit"), [(number, *each) for number, each in SHARES.items()])
def test_without_a_counter_of_time_the_reason_of_the_moment_is_taken(
    open_source: Open, nvml_driver: Driver, rows: Any, number: int, name: str, bit: int
) -> None:
    refused = f"gpus 1\nfield {number} {NOT_SUPPORTED} 0\nfield 75 {NOT_SUPPORTED} 0\n"
    source = open_source(refused + f"event {bit} 0.5 0")
    assert rows(source, 0.0)["0"][name] == 1
    nvml_driver(refused)
    assert rows(source, 1.0)["0"][name] == 0
    unmeasured = open_source(refused + f"unknown_events {bit} 0").devices[0].unmeasured
    assert "the driver's answer does not include it: Not Supported" in unmeasured[name]


def test_numbers_that_an_older_driver_gives_to_other_fields_are_not_taken(
    open_source: Open, rows: Any, clock: list[float]
) -> None:
    source = open_source("gpus 1\ngpu 0 a100\nevent 64 1 0")
    rows(source, 0.0)
    clock[0] += 1
    got = rows(source, 1.0)["0"]
    assert got["throttled_hardware_thermal"] == 1  # the bit: its field 270 is not a counter of time
    assert got["throttled_thermal"] == 0  # of field 75


def test_a_driver_from_before_the_reasons_got_their_name(open_source: Open, lacking: Any, rows: Any) -> None:
    lacking("ClocksEventReasons")
    assert rows(open_source("gpus 1\ngpu 0 t4\nevent 4 1 0"), 0.0)["0"]["throttled_power_cap"] == 1


def test_errors_of_each_nvlink_are_summed(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2\nvalue 161 3 0\nvalue 162 1 0\nvalue 91 0 1")
    got = rows(source, 0.0)
    assert (got["0"]["nvlink_replay_errors"], got["0"]["nvlink_recovery_errors"]) == (18 * 3, 18)
    assert got["0"]["nvlink_crc_errors"] == 0
    assert not {name for name in got["1"] if name.startswith("nvlink_") and name.endswith("_errors")}
    assert "NVLink errors by port" in source.devices[1].unmeasured["nvlink_crc_errors"]
    nvml_driver(f"gpus 2\nvalue 162 1 0\nfield 161 {UNKNOWN} 0")
    got = rows(source, 60.0)
    assert np.isnan(got["0"]["nvlink_replay_errors"])  # never the sum of some: it would fall, and grow again
    assert got["0"]["nvlink_recovery_errors"] == 18
    assert source.blanks == {(0, "nvlink_replay_errors"): 1}


@pytest.mark.parametrize(
    ("name", "function", "state", "value"),
    [
        ("fan_speed", "nvmlDeviceGetFanSpeed", "fan * 35", 0.35),
        ("encoder_utilization", "nvmlDeviceGetEncoderUtilization", "", 0.2),
        ("memory_reserved", "nvmlDeviceGetMemoryInfo_v2", "", 2**20),
        ("vgpu_license_status", "nvmlDeviceGetGridLicensableFeatures_v4", "license * 1", 1),
        ("throttled_clock_setting", "nvmlDeviceGetCurrentClocksEventReasons", "event 2 1 *", 1),
    ],
)
def test_a_call_that_answers_is_blank_and_is_refused(
    open_source: Open, nvml_driver: Driver, rows: Any, name: str, function: str, state: str, value: float
) -> None:
    older = f"fail nvmlDeviceGetCurrentClocksThrottleReasons {NOT_SUPPORTED} 1\n"
    source = open_source(f"gpus 2\n{state}\nfail {function} {NOT_SUPPORTED} 1\n{older}")
    got = rows(source, 0.0)
    assert got["0"][name] == pytest.approx(value)
    assert name not in got["1"]
    assert "Not Supported" in source.devices[1].unmeasured[name]
    nvml_driver(f"gpus 2\n{state}\nfail {function} {UNKNOWN} 0")
    assert np.isnan(rows(source, 60.0)["0"][name])
    assert source.blanks[0, name] == 1
    nvml_driver(f"gpus 2\n{state}")
    assert rows(source, 120.0)["0"][name] == pytest.approx(value)
