"""Source ``gpm`` against the stub libnvidia-ml: NVML's GPU performance monitoring, and all that source ``nvml`` reads too."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.catalog import catalog, read_metrics
from epochcast.agent.sampler import Sampler, SystemClock
from epochcast.agent.sources import gpm
from epochcast.agent.sources.gpm import GpmSource
from epochcast.agent.sources.nvml_readings import OF_INSTANCES
from epochcast.agent.store import DeviceStore
from epochcast.common.errors import InputError

UNKNOWN, NOT_SUPPORTED, NO_DATA = 999, 3, 21
MIB = 1024.0**2
BUSY = {
    "gr_engine_active": 0.95,
    "sm_active": 0.85,
    "sm_occupancy": 0.45,
    "tensor_active": 0.6,
    "dram_active": 0.4,
    "fp64_active": 0.01,
    "fp32_active": 0.2,
    "fp16_active": 0.05,
    "pcie_tx": 1000 * MIB,
    "pcie_rx": 2000 * MIB,
    "nvlink_tx": 3000 * MIB,
    "nvlink_rx": 4000 * MIB,
}

# Of these an H200 in the stub has none.
NOT_THERE = {"fan_speed", "nvlink_crc_flit_errors", "nvlink_crc_data_errors", "vgpu_license_status"}

Driver = Any
Open = Callable[..., GpmSource]


@pytest.fixture
def open_source(open_kind: Callable[..., Any]) -> Open:
    return partial(open_kind, GpmSource)


@pytest.fixture(scope="session")
def rows(rows: Callable[..., Any]) -> Callable[..., dict[str, dict[str, float]]]:
    """The same; ``wait``: as the sampler does, until the source is ready."""

    def read(source: GpmSource, elapsed: float, slow: bool = False, wait: bool = True) -> dict[str, dict[str, float]]:
        if wait:
            time.sleep(max(0.0, source.ready_at - time.monotonic()))
        return rows(source, elapsed, slow, slow)  # type: ignore[no-any-return]

    return read


def profiled(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name in BUSY and not np.isnan(value)}


def test_profiling_metrics_in_base_units_beside_all_others(open_source: Open, rows: Any) -> None:
    source = open_source("gpus 2")
    gpus = {name for name, metric in read_metrics().items() if metric.scope == "gpu"} - NOT_THERE
    assert [{metric.name for metric in device.metrics} for device in source.devices] == [gpus, gpus]
    assert [set(device.unmeasured) for device in source.devices] == [NOT_THERE, NOT_THERE]
    got = rows(source, 0.0, slow=True)
    assert set(got) == {"0", "1"}
    assert profiled(got["1"]) == pytest.approx(BUSY)
    time_shares = {name for name in got["1"] if name.startswith("throttled_")} - {"throttled_clock_setting"}
    assert {name for name, value in got["1"].items() if np.isnan(value)} == time_shares  # they take two readings
    assert got["1"]["power"] == 650
    assert rows(source, 0.1)["0"].keys() == gpus
    assert not source.blanks


def test_a_metric_is_the_mean_between_two_samples(open_source: Open, rows: Any) -> None:
    source = open_source("gpus 1\nepoch * 0.8 0.5")
    moments, values = [gpm._sampled["GPU-stub-0"]], []
    for n in range(17):
        values.append(rows(source, n / 10)["0"]["sm_active"])
        moments.append(gpm._sampled["GPU-stub-0"])
    assert max(values) == pytest.approx(0.85)
    assert min(values) == 0
    # Nothing is counted twice or left out: busy for half of the time, but for a part of a period and the driver's own steps.
    busy = 0.5 * (moments[-1] - moments[0])
    assert np.dot(values, np.diff(moments)) == pytest.approx(0.85 * busy, abs=0.85 * 0.3)


def test_samples_are_never_closer_than_the_driver_allows(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    first = open_source("gpus 3\nmig 0 7:1g.18gb 9:1g.18gb")
    rows(first, 0.0, slow=True)
    # Asked far too often: what is too early is left out, and the next window covers that time too, so nothing is blank.
    for n in range(40):
        rows(first, n / 100, wait=False)
        time.sleep(0.005)
    assert not first.blanks[3, "sm_active"]
    # Asked when it says that it is ready, or a moment before. Where this machine was busy between the samples of two GPUs, the
    # later one is left out then.
    answers = []
    while sum(map(bool, answers)) < 3 and len(answers) < 50:
        time.sleep(max(0.0, first.ready_at - time.monotonic() - 0.001))
        answers.append(profiled(rows(first, 1 + len(answers) / 10, wait=False)["1"]))
    assert all(answer in ({}, pytest.approx(BUSY)) for answer in answers) and sum(map(bool, answers)) >= 3
    # Another source of the same GPUs knows when they were last sampled.
    second = open_source()
    assert profiled(rows(second, 0.0)["1"]) == pytest.approx(BUSY)
    assert nvml_driver.violations == []


def test_threads_take_turns(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    nvml_driver("gpus 2\nslow nvmlGpmSampleGet 2000\nslow nvmlGpmMetricsGet 2000")
    sources = [open_source(only=frozenset({f"GPU-stub-{index}"})) for index in range(2)]

    def read(source: GpmSource) -> None:
        for n in range(6):
            rows(source, n / 10)

    threads = [threading.Thread(target=read, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert nvml_driver.violations == []
    assert not [name for source in sources for _, name in source.blanks if name in ("sm_active", "power")]


def test_each_metric_has_its_own_return_code(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    tensor, sm, dram = (metric.gpm for metric in (catalog()[name] for name in ("tensor_active", "sm_active", "dram_active")))
    source = open_source(f"gpus 2\ngpm {tensor} {NOT_SUPPORTED} 0\ngpm {dram} {NO_DATA} 0")
    unmeasured = source.devices[0].unmeasured
    assert {name: unmeasured[name] for name in unmeasured.keys() - NOT_THERE} == {
        "tensor_active": f"NVML GPM metric {tensor}: Not Supported"
    }
    assert profiled(rows(source, 0.0)["0"]).keys() == BUSY.keys() - {"tensor_active", "dram_active"}
    assert source.blanks == {(0, "dram_active"): 1}
    nvml_driver(f"gpus 2\ngpm {sm} nan 0\ngpm {dram} {UNKNOWN} 1")
    got = rows(source, 0.1)
    assert profiled(got["0"]).keys() == BUSY.keys() - {"tensor_active", "sm_active"}
    assert profiled(got["1"]).keys() == BUSY.keys() - {"dram_active"}
    assert source.blanks == {(0, "dram_active"): 1, (0, "sm_active"): 1, (1, "dram_active"): 1}


def test_what_gpm_refuses_is_read_from_counters(open_source: Open, rows: Any) -> None:
    source = open_source(f"gpus 1\ngpm {catalog()['nvlink_tx'].gpm} {NOT_SUPPORTED} 0")
    rows(source, 0.0)
    assert rows(source, 0.1)["0"]["nvlink_tx"] > 0  # field 138
    assert source.devices[0].unmeasured.keys() == NOT_THERE


def test_after_a_pause_the_window_begins_anew(
    open_source: Open, nvml_driver: Driver, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    nvml_driver("gpus 1")
    monkeypatch.setattr(gpm, "_sampled", {})  # no other test is to know of a time that never was
    source = open_source()
    assert profiled(rows(source, 0.0)["0"])
    # Pretend that it was 6 s: the true clock goes on.
    monkeypatch.setattr(gpm, "monotonic", lambda: time.monotonic() + 6)
    got = rows(source, 6.0)["0"]
    assert not profiled(got)
    assert got["power"] == 650
    time.sleep(0.1)
    assert profiled(rows(source, 6.1, wait=False)["0"]) == pytest.approx(BUSY)
    time.sleep(gpm.SPACING_S)  # the next test's sources do not know when these samples were taken


def test_a_lost_gpu_comes_back_with_new_samples(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2")
    rows(source, 0.0)
    nvml_driver("gpus 2\nlost 1")
    assert set(rows(source, 0.1)) == {"0"}
    nvml_driver("gpus 2")
    back = rows(source, 1.2)
    assert not profiled(back["1"])  # one sample yet
    assert back["1"]["power"] == 650
    assert profiled(rows(source, 1.3)["1"]) == pytest.approx(BUSY)
    assert nvml_driver.violations == []


def test_unknown_error_from_gpm_alone_leaves_the_rest(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 1")
    rows(source, 0.0)
    nvml_driver(f"gpus 1\nfail nvmlGpmSampleGet {UNKNOWN} 0")
    got = rows(source, 0.1)["0"]
    assert not profiled(got)
    assert got["power"] == 650
    assert source.blanks.keys() == {(0, name) for name in BUSY}
    nvml_driver("gpus 1")
    time.sleep(0.1)
    assert not profiled(rows(source, 0.2)["0"])  # starts again: what answers may be another device
    assert profiled(rows(source, 0.3)["0"]) == pytest.approx(BUSY)
    nvml_driver(f"gpus 1\nfail * {UNKNOWN} 0")
    with pytest.raises(RuntimeError, match="no GPU answers"):
        rows(source, 0.4)


def test_mig_instances_have_their_own_window(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 1\nmig 0 7:1g.18gb 9:1g.18gb:2")
    assert [device.label for device in source.devices] == ["0", "0.7", "0.9"]
    part = source.devices[1]
    assert (part.index, part.instance, part.source, part.uuid) == (0, 7, "gpm", "MIG-stub-0-7-0")
    own = {name for name in BUSY if catalog()[name].unit == "ratio"}
    assert {metric.name for metric in part.metrics} == own | OF_INSTANCES
    assert "power" in part.unmeasured
    assert "NVML GPM metric 20" in part.unmeasured["pcie_tx"]
    got = rows(source, 0.0, slow=True)
    assert profiled(got["0.9"]) == pytest.approx({name: value for name, value in BUSY.items() if name in own})
    assert got["0"]["power"] == 650
    # The instance is gone: the others go on.
    nvml_driver("gpus 1\nmig 0 9:1g.18gb:2")
    got = rows(source, 0.1)
    assert profiled(got["0"])
    assert not profiled(got.get("0.7", {}))


def test_gpus_without_gpm_are_left_to_other_sources(open_source: Open) -> None:
    assert [device.uuid for device in open_source("gpus 3\ngpu 0 t4\ngpu 1 a100").devices] == ["GPU-stub-2"]
    with pytest.raises(
        InputError, match=r"source 'gpm' finds no GPU with NVML's performance monitoring among 2 .*--source dcgm"
    ):
        open_source(only=frozenset({"GPU-stub-0", "GPU-stub-1"}))


def test_a_driver_that_refuses_samples(open_source: Open, rows: Any) -> None:
    source = open_source("gpus 1\nfail nvmlGpmSampleGet 4 *")
    assert "nvmlGpmSampleGet" in source.devices[0].unmeasured["sm_active"]
    assert rows(source, 0.0)["0"]["power"] == 650


def test_a_row_has_the_time_of_its_gpm_sample(open_source: Open, nvml_driver: Driver) -> None:
    # Slow enough for the difference between two GPUs, and between a sample and what is asked of it, to show.
    slow = ("nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlDeviceGetFieldValues")
    source = open_source("gpus 3\nlog 1\n" + "".join(f"slow {name} 4000\n" for name in slow))
    clock = SystemClock()
    log = Path(f"{nvml_driver.path}.log")
    log.write_text("")
    sampler = Sampler(source, [DeviceStore(device, 600, 5.0) for device in source.devices], clock, 1.0)
    timer = threading.Timer(1.5, clock.stop)
    timer.start()
    sampler.run()
    timer.join()
    calls = [(float(moment), name, int(gpu)) for moment, name, gpu in map(str.split, log.read_text().splitlines())]
    for gpu, store in enumerate(sampler.stores):
        time, columns = store.samples(-np.inf, np.inf, ["sm_active"])
        rows = time[~np.isnan(columns["sm_active"])]
        sampled, computed = (
            np.array([moment for moment, name, of in calls if (name, of) == (function, gpu)])
            for function in ("nvmlGpmSampleGet", "nvmlGpmMetricsGet")
        )
        assert len(rows) == len(sampled) >= 3
        # A drift of the clock is followed once it is a millisecond.
        assert (sampled - 0.001 <= rows).all() and (rows <= computed + 0.001).all()
    # The power of no GPU is read before the samples of all.
    first = next(place for place, (_, name, _) in enumerate(calls) if name == "nvmlDeviceGetFieldValues")
    assert {gpu for _, name, gpu in calls[:first] if name == "nvmlGpmSampleGet"} == {0, 1, 2}
