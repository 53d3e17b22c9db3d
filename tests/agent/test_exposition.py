import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.exposition import registry
from epochcast.agent.sampler import Sampler
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore

START = 1_700_000_000.0  # a multiple of 5 s
NAN = float("nan")


class Recorded:
    name = "nvml"
    hertz = 10.0
    interval = 0.1
    silent_after = 1.0
    recorded_rows = None
    finished = False

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def read(self, _: Any) -> list[Any]:
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def build(fake_clock: Any) -> Callable[..., Sampler]:
    def sampler(*devices: Device) -> Sampler:
        source = Recorded(*devices)
        return Sampler(source, [DeviceStore(device, 6000, 5.0) for device in devices], fake_clock(START, until=1e9))

    return sampler


def page(sampler: Sampler) -> dict[tuple[str, str], float]:
    """Return the values on /metrics by (name, gpu)."""
    text = generate_latest(registry(sampler, 5.0)).decode()
    return {
        (sample.name, sample.labels.get("gpu", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def device(index: int, *names: str) -> Device:
    return Device(index, f"GPU-{index}", "NVIDIA H200", tuple(catalog()[name] for name in names))


def test_last_value_windows_and_counters(build: Any) -> None:
    sampler = build(device(0, "sm_active", "energy"))
    for tick in range(51):
        sampler.stores[0].add(START + tick / 10, np.array([tick / 100, 1000 + tick]), 0.0)
    got = page(sampler)
    assert got["epochcast_gpu_sm_active_ratio", "0"] == 0.5
    assert got["epochcast_gpu_sm_active_ratio_avg", "0"] == pytest.approx(np.mean(np.arange(50) / 100))
    assert (got["epochcast_gpu_sm_active_ratio_min", "0"], got["epochcast_gpu_sm_active_ratio_max", "0"]) == (0, 0.49)
    assert got["epochcast_gpu_sm_active_seconds_total", "0"] == pytest.approx(sum(range(1, 51)) / 100 * 0.1)
    assert got["epochcast_gpu_energy_joules_total", "0"] == 1050
    assert not [name for name, _ in got if name.startswith("epochcast_gpu_energy_joules_") and not name.endswith("_total")]


def test_a_blank_value_or_a_silent_device_has_no_line(build: Any) -> None:
    sampler = build(device(0, "power", "temperature"), device(1, "power"))
    for store in sampler.stores:
        store.add(START, np.full(len(store.device.metrics), 50.0), 0.0)
    sampler.clock.wait(0.6)
    sampler.stores[0].add(START + 0.6, np.array([NAN, NAN]), 0.6)
    got = page(sampler)
    assert ("epochcast_gpu_power_watts", "0") not in got
    assert got["epochcast_gpu_temperature_celsius", "0"] == 50
    assert got["epochcast_gpu_power_watts", "1"] == 50
    sampler.clock.wait(0.5)  # GPU 1 has now been silent for 1.1 s
    sampler.stores[1].missed_ticks = 11
    got = page(sampler)
    assert ("epochcast_gpu_power_watts", "1") not in got
    assert got["epochcast_gpu_info", "1"] == 1
    assert got["epochcast_gpu_missed_ticks_total", "1"] == 11
    assert ("epochcast_gpu_temperature_celsius", "0") in got


def test_two_scrapers_see_the_same(build: Any) -> None:
    sampler = build(device(0, "sm_active"))
    for tick in range(60):
        sampler.stores[0].add(START + tick / 10, np.array([0.5]), 0.0)
    own = {key: value for key, value in page(sampler).items() if key[0].startswith("epochcast")}
    assert own == {key: value for key, value in page(sampler).items() if key[0].startswith("epochcast")}


def test_foreign_columns_get_legal_names_that_no_other_has(build: Any) -> None:
    names = ["my col", "my-col", "power_watts", "größe", "power_watts_avg"]
    metrics = tuple(Metric(name, unit="", tier="slow", help=f"Column {name}.") for name in names)
    sampler = build(Device(0, "replay-x", 'a "quoted" name\n', (catalog()["power"], *metrics)))
    sampler.stores[0].add(START, np.arange(6.0), 0.0)
    got = {
        name: value
        for (name, _), value in page(sampler).items()
        if name.startswith("epochcast_gpu") and not name.endswith(("_info", "_total"))
    }
    assert got == {
        "epochcast_gpu_power_watts": 0,
        "epochcast_gpu_my_col": 1,
        "epochcast_gpu_my_col_2": 2,
        "epochcast_gpu_power_watts_2": 3,
        "epochcast_gpu_gr__e": 4,
        "epochcast_gpu_power_watts_avg_2": 5,
    }


def test_a_foreign_column_cannot_take_a_name_of_ours(build: Any, tmp_path: Path) -> None:
    names = ["power_watts_avg", "info", "missed_ticks_total", "sm_active_seconds_total", "energy_joules_total", ""]
    metrics = [Metric(name, unit="", tier="slow", help=f"Column {name!r}.") for name in names]
    ours = [catalog()[name] for name in ("power", "sm_active", "energy")]
    sampler = build(Device(0, "replay-x", "x", (*metrics, *ours)))
    sampler.stores[0].add(START, np.arange(9.0), 0.0)
    text = generate_latest(registry(sampler, 5.0)).decode()
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert sorted(set(families)) == sorted(families)
    got = page(sampler)
    assert (got["epochcast_gpu_power_watts", "0"], got["epochcast_gpu_energy_joules_total", "0"]) == (6, 8)
    assert lint(text, tmp_path) == "0"


def lint(text: str, tmp_path: Path) -> str:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: install Prometheus to check the page as it does")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, cwd=tmp_path)
    return f"{done.returncode} {done.stdout}{done.stderr}".strip()


def test_promtool_accepts_every_metric_of_the_catalogue(build: Any, tmp_path: Path) -> None:
    sampler = build(device(0, *catalog()), device(1, *catalog()))
    for tick in range(120):
        for store in sampler.stores:
            store.add(START + tick / 10, np.full(len(catalog()), tick / 100), 0.0)
    sampler.last_sample_time = START + 12
    text = generate_latest(registry(sampler, 5.0)).decode()
    assert len([line for line in text.splitlines() if line.startswith("epochcast_gpu_sm_active")]) == 2 * 5
    assert lint(text, tmp_path) == "0"


def test_promtool_accepts_a_live_agent(start_agent: Any, tmp_path: Path) -> None:
    assert lint(start_agent("--source", "host").text("/metrics"), tmp_path) == "0"


def test_promtool_refuses_a_page_that_is_wrong(tmp_path: Path) -> None:
    assert lint("# HELP a_total A gauge.\n# TYPE a_total gauge\na_total 1\n", tmp_path).startswith("3 ")
