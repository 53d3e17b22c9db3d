"""Source ``nvml`` against a stub libnvidia-ml compiled from C: the real binding, the real structures, no GPU."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent.config import Config
from epochcast.agent.errors import InputError
from epochcast.agent.sources import Tick, nvml_readings
from epochcast.agent.sources.nvml import NvmlSource

LOST, UNKNOWN, NO_DATA, NOT_SUPPORTED = 15, 999, 21, 3

Driver = Any
Open = Callable[..., NvmlSource]
Calls = Callable[[str], int]


@pytest.fixture
def open_source(nvml_driver: Driver) -> Iterator[Open]:
    """Open sources over the stub; they are closed after the test."""
    opened: list[NvmlSource] = []

    def start(only: frozenset[str] | None = None, **settings: Any) -> NvmlSource:
        opened.append(NvmlSource(Config(**settings), only))
        return opened[-1]

    yield start
    for source in opened:
        source.close()


def rows(source: NvmlSource, elapsed: float, slow: bool = True, rare: bool = True) -> dict[str, dict[str, float]]:
    """Return the values by the device's label and metric."""
    tick = Tick(1_700_000_000 + elapsed, elapsed, slow, rare)
    return {
        source.devices[row.device].label: dict(
            zip((metric.name for metric in source.devices[row.device].metrics), row.values, strict=True)
        )
        for row in source.read(tick)
    }


def filled(values: dict[str, float]) -> set[str]:
    return {name for name, value in values.items() if not np.isnan(value)}


def test_a_healthy_gpu_gives_base_units(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    got = rows(open_source(), 0.0)["0"]
    assert got.pop("energy") >= 5e9  # the stub starts at 5e12 mJ
    nothing_yet = {"nvlink_tx", "nvlink_rx"}  # a rate takes two readings
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
            "xid_errors": 0,
        }
    )


def test_static_attributes(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    device = open_source().devices[0]
    assert (device.index, device.uuid, device.name, device.source) == (0, "GPU-stub-0", "NVIDIA H200", "nvml")
    assert {fact.source for fact in device.static.values()} == {"nvml"}
    assert {name: fact.value for name, fact in device.static.items()} == {
        "memory_total": 150754820096,
        "bar1_total": 256 * 2**20,
        "max_sm_clock": 1.98e9,
        "max_memory_clock": 3.201e9,
        "memory_bus_width": 6144,
        "cuda_cores": 16896,
        "compute_capability": "9.0",
        "power_limit": 700.0,
        "shutdown_temperature": 92.0,
        "pcie_link_width": 16,
        "pcie_link_generation": 5,
        "pci_bus_id": "00000000:10:00.0",
        "driver_version": "999.1",
    }


def test_each_tier_is_read_when_due_and_what_is_off_never(open_source: Open, nvml_driver: Driver, nvml_calls: Calls) -> None:
    nvml_driver("gpus 1")
    source = open_source(tiers={"memory_used": "rare", "memory_free": "off", "temperature": "off"})
    assert "memory_free" not in {metric.name for metric in source.devices[0].metrics}
    rows(source, 0.0)
    calls = nvml_calls("nvmlDeviceGetTemperature")
    assert filled(rows(source, 0.1, slow=False, rare=False)["0"]) == {"power", "energy", "nvlink_tx", "nvlink_rx"}
    slow = filled(rows(source, 1.0, rare=False)["0"])
    assert {"gpu_utilization", "sm_clock", "power_average", "power"} <= slow
    assert not {"power_limit", "pcie_link_width", "memory_used"} & slow
    assert {"power_limit", "pcie_link_width", "memory_used"} <= filled(rows(source, 60.0)["0"])
    assert nvml_calls("nvmlDeviceGetTemperature") == calls == 0
    assert nvml_calls("nvmlDeviceGetPcieThroughput") == 0


def test_all_fields_due_are_one_call(open_source: Open, nvml_driver: Driver, nvml_calls: Calls) -> None:
    nvml_driver("gpus 1")
    source = open_source()
    before = nvml_calls("nvmlDeviceGetFieldValues")
    rows(source, 0.0)
    assert nvml_calls("nvmlDeviceGetFieldValues") == before + 1


def test_an_old_gpu_is_read_through_older_calls_and_the_rest_is_left_out_with_a_reason(
    open_source: Open, nvml_driver: Driver
) -> None:
    nvml_driver("gpus 2\ngpu 1 t4")
    source = open_source()
    got, device = rows(source, 0.0)["1"], source.devices[1]
    assert (got["power"], got["memory_used"]) == pytest.approx((70, 16106127360 / 4 + 2**20))
    assert got["energy"] >= 5e9
    # Turing: nvmlDeviceGetPowerUsage is the instant power there, so there is no average.
    assert "no average" in device.unmeasured["power_average"]
    assert {"bar1_used", "bar1_free", "pcie_tx", "nvlink_rx", "sm_active"} <= device.unmeasured.keys()
    assert "source 'gpm'" in device.unmeasured["sm_active"]
    assert all(device.unmeasured.values())
    assert not device.unmeasured.keys() & got.keys()


def test_utilisation_is_the_mean_of_the_drivers_samples(open_source: Open, nvml_driver: Driver, nvml_calls: Calls) -> None:
    # Busy for half of every third of a second: of two windows of 1/6 s one is all busy, the other idle.
    nvml_driver(f"gpus 1\nepoch * {1 / 3} 0.5")
    source = open_source()
    before = nvml_calls("nvmlDeviceGetUtilizationRates")
    time.sleep(0.7)
    got = rows(source, 1.0)["0"]
    assert 0.3 < got["gpu_utilization"] < 0.6  # four or five samples of 0.9 and 0; the last window alone would be either
    assert nvml_calls("nvmlDeviceGetUtilizationRates") == before


def test_without_a_new_sample_utilisation_is_the_drivers_last_window(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    source = open_source()
    rows(source, 0.0)
    nvml_driver("gpus 1\nfail nvmlDeviceGetSamples 6 *")
    assert rows(source, 1.0)["0"]["gpu_utilization"] == pytest.approx(0.9)


def test_fast_utilisation_is_the_drivers_last_window(open_source: Open, nvml_driver: Driver, nvml_calls: Calls) -> None:
    nvml_driver("gpus 1")
    source = open_source(tiers={"gpu_utilization": "fast"})
    assert rows(source, 0.1, slow=False, rare=False)["0"]["gpu_utilization"] == pytest.approx(0.9)
    assert nvml_calls("nvmlDeviceGetSamples") == 0


def test_counters_give_rates_across_a_wrap(open_source: Open, nvml_driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_driver("gpus 1\ngpu 0 a100\npcie 0 0 0")
    now = 100.0
    monkeypatch.setattr(nvml_readings, "monotonic", lambda: now)
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


def test_a_counter_that_may_wrap_twice_within_a_tick_is_not_measured(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")  # PCIe 5 moves 2**32 bytes in 0.07 s
    assert "may wrap more than once" in open_source().devices[0].unmeasured["pcie_tx"]


def test_a_rate_is_never_negative(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    source = open_source()
    rows(source, 0.0, slow=False, rare=False)
    assert rows(source, 0.1, slow=False, rare=False)["0"]["nvlink_tx"] > 0
    nvml_driver("gpus 1\nepoch * 1 0")  # idle ever since: the counter is back at zero
    assert np.isnan(rows(source, 0.2, slow=False, rare=False)["0"]["nvlink_tx"])
    assert rows(source, 0.3, slow=False, rare=False)["0"]["nvlink_tx"] == 0


def test_energy_that_runs_backwards_is_the_drivers_word(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    source = open_source()
    rows(source, 0.0)
    nvml_driver("gpus 1\nenergy 0 1000")
    assert rows(source, 0.1)["0"]["energy"] < 1e6  # a counter reset: Prometheus knows what to do


def test_a_blank_reading_is_absent_counted_and_costs_nothing_else(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 2")
    source = open_source(tiers={"nvlink_tx": "off", "nvlink_rx": "off"})
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


@pytest.mark.parametrize("code", [LOST, 1, 16])
def test_a_lost_gpu_is_left_out_and_comes_back_while_the_other_goes_on(
    open_source: Open, nvml_driver: Driver, code: int
) -> None:
    nvml_driver("gpus 2")
    source = open_source()
    assert set(rows(source, 0.0)) == {"0", "1"}
    nvml_driver(f"gpus 2\nfail * {code} 0")
    tried = [n for n in range(1, 100) if set(rows(source, n / 10, slow=False, rare=False)) == {"1"}]
    assert len(tried) == 99  # at no tick did GPU 1 suffer
    nvml_driver("gpus 2")
    # Tried at 0.1 s, then 1, 2, 4, 8 s after the try before: next at 15.1 s.
    assert set(rows(source, 15.0, slow=False, rare=False)) == {"1"}
    back = rows(source, 15.1, slow=False, rare=False)
    assert set(back) == {"0", "1"}
    assert back["0"]["temperature"] == 55  # all of it, as after a start
    assert not [key for key in source.blanks if key[1] not in ("nvlink_tx", "nvlink_rx")]  # absent is not blank
    # The backoff starts anew.
    nvml_driver("gpus 2\nlost 0")
    rows(source, 15.2)
    nvml_driver("gpus 2")
    assert set(rows(source, 16.3)) == {"0", "1"}


def test_a_gpu_that_answers_unknown_error_to_everything_is_gone(
    open_source: Open, nvml_driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    nvml_driver("gpus 2")
    source = open_source()
    nvml_driver(f"gpus 2\nfail * {UNKNOWN} 0")
    assert set(rows(source, 0.1, slow=False, rare=False)) == {"1"}
    assert "GPU 0 (GPU-stub-0) does not answer: nvmlDeviceGetFieldValues: Unknown Error" in caplog.text


def test_with_every_gpu_gone_the_library_is_started_anew(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 2")
    source = open_source()
    assert set(rows(source, 0.0)) == {"0", "1"}
    # The driver was reloaded: whoever holds the library from before hears "Unknown Error" for ever.
    nvml_driver("gpus 2\ngeneration 1\nfail nvmlInit 9 *")
    for elapsed in (0.1, 0.5, 1.1):
        with pytest.raises(RuntimeError, match="no GPU answers"):
            rows(source, elapsed)
    nvml_driver("gpus 2\ngeneration 1")
    with pytest.raises(RuntimeError, match="no GPU answers"):
        rows(source, 1.2)  # not before its time
    back = rows(source, 3.2)
    assert set(back) == {"0", "1"}
    assert back["0"]["xid_errors"] == 0


def test_a_gpu_that_is_lost_at_the_start_makes_the_source_outdated_when_it_is_back(
    open_source: Open, nvml_driver: Driver
) -> None:
    nvml_driver("gpus 2\nlost 0")
    source = open_source()
    assert [device.uuid for device in source.devices] == ["GPU-stub-1"]
    assert set(rows(source, 0.0)) == {"1"}
    assert not source.outdated
    nvml_driver("gpus 2")
    rows(source, 1.0, rare=False)
    assert not source.outdated  # looked at once a minute
    rows(source, 60.0)
    assert source.outdated


def test_a_gpu_that_answers_only_unknown_error_at_the_start(open_source: Open, nvml_driver: Driver) -> None:
    everything = "".join(
        f"fail {name} {UNKNOWN} 0\n"
        for name in (
            *("nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"),
            *("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature"),
            *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetBAR1MemoryInfo"),
            *("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetCudaComputeCapability"),
        )
    )
    nvml_driver(f"gpus 2\n{everything}")
    source = open_source()
    assert [device.uuid for device in source.devices] == ["GPU-stub-1"]
    rows(source, 0.0)
    assert not source.outdated
    nvml_driver("gpus 2")
    rows(source, 60.0)
    assert source.outdated


def test_a_gpu_that_was_added(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 2")
    source = open_source(frozenset({"GPU-stub-1"}))
    rows(source, 0.0)
    assert not source.outdated  # GPU 0 is another source's
    nvml_driver("gpus 2\nlost 0")
    rows(source, 60.0)
    assert not source.outdated
    nvml_driver("gpus 3")
    rows(source, 120.0)
    assert source.outdated


def test_mig_instances_are_devices_with_what_is_theirs(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 2\nmig 0 7:1g.18gb 9:2g.35gb:2")
    source = open_source()
    assert [(device.label, device.uuid, device.name) for device in source.devices] == [
        ("0", "GPU-stub-0", "NVIDIA H200"),
        ("0.7", "MIG-stub-0-7-0", "NVIDIA H200 MIG 1g.18gb"),
        ("0.9", "MIG-stub-0-9-0", "NVIDIA H200 MIG 2g.35gb"),  # its two compute instances share it
        ("1", "GPU-stub-1", "NVIDIA H200"),
    ]
    whole, part = source.devices[:2]
    assert "gpu_utilization" in whole.unmeasured
    assert {metric.name for metric in part.metrics} == {"memory_used", "memory_free", "bar1_used", "bar1_free"}
    assert "whole GPU" in part.unmeasured["power"]
    assert set(part.static) >= {"memory_total", "sm_count"}
    got = rows(source, 0.0)
    assert got["0.7"]["memory_used"] * 8 == pytest.approx(got["0"]["memory_used"])
    assert got["0"]["power"] == 650
    # Partitioned anew.
    nvml_driver("gpus 2\nmig 0 7:1g.18gb")
    assert set(rows(source, 0.1, slow=False, rare=False)) >= {"0", "1"}
    assert not source.outdated
    rows(source, 60.0)
    assert source.outdated


def test_xid_errors_are_counted_and_named(open_source: Open, nvml_driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    nvml_driver("gpus 2\nxid 1 1 13")  # before the agent started
    source = open_source()
    assert [got["xid_errors"] for got in rows(source, 0.0).values()] == [0, 0]
    nvml_driver("gpus 2\nxid 2 1 31\nxid 3 1 79")
    assert np.isnan(rows(source, 0.1, slow=False, rare=False)["1"]["xid_errors"])
    got = rows(source, 1.0, rare=False)
    assert (got["0"]["xid_errors"], got["1"]["xid_errors"]) == (0, 2)
    assert rows(source, 2.0, rare=False)["1"]["xid_errors"] == 2
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "GPU 1: the driver reports Xid 31",
        "GPU 1: the driver reports Xid 79",
    ]


def test_the_xid_error_of_the_last_gpu_to_go_is_named(
    open_source: Open, nvml_driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    nvml_driver("gpus 1")
    source = open_source()
    rows(source, 0.0)
    nvml_driver("gpus 1\nxid 1 0 79\nlost 0")
    with pytest.raises(RuntimeError, match="no GPU answers"):
        rows(source, 0.1, slow=False, rare=False)
    assert "GPU 0: the driver reports Xid 79" in caplog.messages
    nvml_driver("gpus 1\nxid 1 0 79")
    assert rows(source, 2.0, rare=False)["0"]["xid_errors"] == 1


def test_a_metric_without_data_at_the_start_is_kept(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver(f"gpus 1\nfail nvmlDeviceGetTemperature {NO_DATA} 0\nfield 185 {NO_DATA} 0")
    source = open_source()
    assert np.isnan(rows(source, 0.0)["0"]["temperature"])
    nvml_driver("gpus 1")
    got = rows(source, 1.0)["0"]
    assert (got["temperature"], got["power_average"]) == (55, 650)


def test_a_function_that_the_driver_lacks_costs_the_metric_alone(
    open_source: Open, nvml_driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OldLibrary:
        def __getitem__(self, name: str) -> Any:
            if name in ("nvmlDeviceGetTemperature", "nvmlEventSetWait_v2"):
                raise AttributeError(name)
            return library[name]

        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

    nvml_driver("gpus 1")
    library = pynvml.nvmlLib
    monkeypatch.setattr(pynvml, "nvmlLib", OldLibrary())
    source = open_source()
    assert source.devices[0].unmeasured.keys() >= {"temperature", "xid_errors"}
    assert source.devices[0].unmeasured["temperature"].startswith("nvmlDeviceGetTemperature")
    assert rows(source, 0.0)["0"]["power"] == 650


def test_an_unknown_error_about_a_static_fact_costs_that_fact_alone(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver(f"gpus 2\nfail nvmlDeviceGetCurrPcieLinkWidth {UNKNOWN} 0")
    source = open_source()
    assert len(source.devices) == 2
    assert "pcie_link_width" not in source.devices[0].static
    assert "power_limit" in source.devices[0].static


def test_a_slow_driver_is_waited_for(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 1\nslow nvmlDeviceGetTemperature 20000")
    assert rows(open_source(), 0.0)["0"]["temperature"] == 55


def test_only_some_gpus(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 3")
    source = open_source(frozenset({"GPU-stub-2"}))
    assert [device.index for device in source.devices] == [2]
    with pytest.raises(InputError, match=r"source 'nvml' sees none of the GPUs that it is to read: GPU-elsewhere$"):
        open_source(frozenset({"GPU-elsewhere"}))


def test_a_driver_without_gpus(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 0")
    with pytest.raises(InputError, match="no GPU that answers"):
        open_source()


def test_a_driver_that_does_not_start(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver(f"gpus 1\nfail nvmlInit {UNKNOWN} *")
    with pytest.raises(
        InputError, match=r"source 'nvml' cannot use the NVIDIA driver \(nvmlInit: Unknown Error\).*--source host"
    ):
        open_source()


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*_: Any) -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    with pytest.raises(InputError, match=r"source 'nvml' cannot use the NVIDIA driver.*--source host"):
        NvmlSource(Config(), None)


def test_the_library_is_given_back(nvml_driver: Driver) -> None:
    nvml_driver("gpus 1")
    for _ in range(3):
        NvmlSource(Config(), None).close()
    with pytest.raises(InputError):
        NvmlSource(Config(), frozenset({"GPU-elsewhere"}))
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlShutdown()


def test_the_whole_agent_over_the_stub(nvml_library: Path, start_agent: Callable[..., Any], nvml_scenario: Any) -> None:
    nvml_scenario("gpus 2\ngpu * a100\ngpu 1 t4")
    stub = {"LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_SCENARIO": str(nvml_scenario.path)}
    agent = start_agent("--source", "nvml", env=stub)
    assert [(gpu["name"], gpu["source"]) for gpu in agent.json("/api/v1/gpus")["gpus"]] == [
        ("NVIDIA A100-SXM4-40GB", "nvml"),
        ("Tesla T4", "nvml"),
    ]
    page = agent.text("/metrics")
    assert 'epochcast_gpu_power_watts{gpu="0",name="NVIDIA A100-SXM4-40GB",uuid="GPU-stub-0"} 380.0' in page
    assert agent.stop()[0] == 0


def test_a_gpu_that_does_not_answer_at_the_start_is_told_of(nvml_driver: Any) -> None:
    nvml_driver("gpus 3\nlost 1")
    source = NvmlSource(Config(), None)
    try:
        assert [device.index for device in source.devices] == [0, 2]
        assert source.unanswering == 1
    finally:
        source.close()
