"""What is read of a GPU at each tick, in which units, and what its driver does not tell."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent.sources import nvml_fields
from epochcast.agent.sources.nvml import NvmlSource

UNKNOWN, NO_DATA = pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_NO_DATA

Driver = Any
Open = Callable[..., NvmlSource]
Calls = Callable[[str], int]


def filled(values: dict[str, float]) -> set[str]:
    return {name for name, value in values.items() if not np.isnan(value)}


def test_a_healthy_gpu_gives_base_units(open_source: Open, rows: Any) -> None:
    got = rows(open_source("gpus 1"), 0.0)["0"]
    assert got.pop("energy") >= 5e9  # the stub starts at 5e12 mJ
    nothing_yet = {"nvlink_tx", "nvlink_rx"} | {name for name in got if name.startswith("throttled_")}  # two readings
    nothing_yet.remove("throttled_clock_setting")
    assert filled(got) == got.keys() - nothing_yet
    memory = 150754820096
    assert {name: value for name, value in got.items() if name not in nothing_yet} == pytest.approx(
        {
            "power": 650,
            "power_average": 650,
            "gpu_utilization": 0.9,
            "memory_utilization": 0.4,
            "sm_clock": 1.98e9,
            "memory_clock": 3.201e9,
            "temperature": 55,
            "memory_used": memory / 4,
            "memory_free": memory - memory / 4 - 2**20,
            "bar1_used": 56 * 2**20,
            "bar1_free": 200 * 2**20,
            "power_limit": 700,
            "pcie_link_width": 16,
            "throttled_clock_setting": 0,
            "encoder_utilization": 0.2,
            "decoder_utilization": 0.3,
            "memory_temperature": 60,
            "memory_reserved": 2**20,
            **dict.fromkeys(("ecc_correctable_errors", "ecc_uncorrectable_errors", "pcie_replays"), 0),
            **dict.fromkeys(("remapped_rows_correctable", "remapped_rows_uncorrectable"), 0),
            **dict.fromkeys(("row_remap_pending", "row_remap_failure"), 0),
            **dict.fromkeys(("nvlink_crc_errors", "nvlink_replay_errors", "nvlink_recovery_errors"), 0),
        }
    )


def test_each_tier_is_read_when_due_and_what_is_off_never(open_source: Open, nvml_calls: Calls, rows: Any) -> None:
    source = open_source(
        "gpus 1", tiers={"memory_used": "rare", "memory_reserved": "rare", "memory_free": "off", "temperature": "off"}
    )
    assert "memory_free" not in {metric.name for metric in source.devices[0].metrics}
    rows(source, 0.0)
    calls = nvml_calls("nvmlDeviceGetTemperature")
    assert filled(rows(source, 0.1, slow=False, rare=False)["0"]) == {"power", "nvlink_tx", "nvlink_rx"}
    slow = filled(rows(source, 1.0, rare=False)["0"])
    assert {"gpu_utilization", "sm_clock", "power_average", "power", "energy"} <= slow
    assert not {"power_limit", "pcie_link_width", "memory_used"} & slow
    assert {"power_limit", "pcie_link_width", "memory_used"} <= filled(rows(source, 60.0)["0"])
    assert nvml_calls("nvmlDeviceGetTemperature") == calls == 0
    assert nvml_calls("nvmlDeviceGetPcieThroughput") == 0


def test_an_old_gpu_is_read_through_older_calls_and_the_rest_is_left_out_with_a_reason(open_source: Open, rows: Any) -> None:
    source = open_source("gpus 2\ngpu 1 t4")
    got, device = rows(source, 0.0)["1"], source.devices[1]
    assert (got["power"], got["memory_used"]) == pytest.approx((70, 16106127360 / 4 + 2**20))
    assert got["energy"] >= 5e9
    # Turing: nvmlDeviceGetPowerUsage is the instant power there, so there is no average.
    assert "no average" in device.unmeasured["power_average"]
    assert {"bar1_used", "bar1_free", "pcie_tx", "nvlink_rx", "sm_active"} <= device.unmeasured.keys()
    assert "source 'gpm'" in device.unmeasured["sm_active"]
    assert all(device.unmeasured.values())
    assert not device.unmeasured.keys() & got.keys()


def test_utilisation_is_the_mean_of_the_drivers_samples(open_source: Open, nvml_calls: Calls, rows: Any) -> None:
    # Busy for half of every third of a second: of two windows of 1/6 s one is all busy, the other idle.
    source = open_source(f"gpus 1\nepoch * {1 / 3} 0.5")
    before = nvml_calls("nvmlDeviceGetUtilizationRates")
    time.sleep(0.7)
    got = rows(source, 1.0)["0"]
    assert 0.3 < got["gpu_utilization"] < 0.6  # four or five samples of 0.9 and 0; the last window alone would be either
    assert nvml_calls("nvmlDeviceGetUtilizationRates") == before


def test_without_a_new_sample_utilisation_is_the_drivers_last_window(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 1")
    rows(source, 0.0)
    nvml_driver("gpus 1\nfail nvmlDeviceGetSamples 6 *")
    assert rows(source, 1.0)["0"]["gpu_utilization"] == pytest.approx(0.9)


def test_counters_give_rates_across_a_wrap(
    open_source: Open, nvml_driver: Driver, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    nvml_driver("gpus 1\ngpu 0 a100\npcie 0 0 0")
    now = 100.0
    monkeypatch.setattr(nvml_fields, "monotonic", lambda: now)
    source = open_source()

    def read_at(counter: int, moment: float) -> float:
        nonlocal now
        now = moment
        nvml_driver(f"gpus 1\ngpu 0 a100\npcie 0 {counter} 0")
        return rows(source, moment - 100, slow=False, rare=False)["0"]["pcie_tx"]

    assert np.isnan(read_at(2**32 - 500, 100.0))  # no reading before
    assert read_at(2**32 + 500, 100.1) == pytest.approx(10_000)  # the counter has 32 bits
    assert read_at(2**32 + 1500, 100.2) == pytest.approx(10_000)
    # PCIe 4 moves 2**32 bytes in 0.13 s at its best: the counter may have wrapped more than once.
    assert np.isnan(read_at(2**32 + 2500, 101.2))


def test_a_counter_that_may_wrap_twice_within_a_tick_is_not_measured(open_source: Open) -> None:
    assert "may wrap more than once" in open_source("gpus 1").devices[0].unmeasured["pcie_tx"]


def test_a_rate_is_never_negative(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 1")
    rows(source, 0.0, slow=False, rare=False)
    assert rows(source, 0.1, slow=False, rare=False)["0"]["nvlink_tx"] > 0
    nvml_driver("gpus 1\nepoch * 1 0")  # idle ever since: the counter is back at zero
    assert np.isnan(rows(source, 0.2, slow=False, rare=False)["0"]["nvlink_tx"])
    assert rows(source, 0.3, slow=False, rare=False)["0"]["nvlink_tx"] == 0


def test_a_blank_reading_is_absent_counted_and_costs_nothing_else(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2", tiers={"nvlink_tx": "off", "nvlink_rx": "off", "energy": "fast"})
    nvml_driver(f"gpus 2\nfail nvmlDeviceGetTemperature {NO_DATA} 0\nfield 186 {UNKNOWN} 1")
    got = rows(source, 1.0, rare=False)
    assert set(got) == {"0", "1"}
    assert np.isnan([got["0"]["temperature"], got["1"]["power"]]).all()
    assert got["1"]["energy"] > 0
    rows(source, 1.1, slow=False, rare=False)
    assert dict(source.blanks) == {(0, "temperature"): 1, (1, "power"): 2}
    nvml_driver("gpus 2")
    assert rows(source, 2.0)["0"]["temperature"] == 55
    assert source.blanks.total() == 3


def test_a_metric_without_data_at_the_start_is_kept(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source(f"gpus 1\nfail nvmlDeviceGetTemperature {NO_DATA} 0\nfield 185 {NO_DATA} 0")
    assert np.isnan(rows(source, 0.0)["0"]["temperature"])
    nvml_driver("gpus 1")
    got = rows(source, 1.0)["0"]
    assert (got["temperature"], got["power_average"]) == (55, 650)


def test_a_function_that_the_driver_lacks_costs_the_metric_alone(open_source: Open, lacking: Any, rows: Any) -> None:
    lacking("^nvmlDeviceGetTemperature$|^nvmlEventSetWait_v2$")
    source = open_source("gpus 1")
    assert source.devices[0].unmeasured["temperature"].startswith("nvmlDeviceGetTemperature")
    assert rows(source, 0.0)["0"]["power"] == 650
