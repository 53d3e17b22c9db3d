import re
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import PARTS, Metric, catalog
from epochcast.agent.choose import Choice
from epochcast.agent.config import Config
from epochcast.agent.exposition import LONGEST_LIFE_S, MetricsPage, registry
from epochcast.agent.sources import Attribute, Device

START = 1_700_000_000.0  # a multiple of 5 s
NAN = float("nan")


EVERYTHING = {"*": PARTS}


def text_of(node: Any, **settings: Any) -> str:
    return generate_latest(registry(node, Config(families=EVERYTHING, **settings))).decode()


def page(node: Any, **settings: Any) -> dict[tuple[str, str], float]:
    """Return the values on /metrics by (name, gpu)."""
    return {
        (sample.name, sample.labels.get("gpu", "")): sample.value
        for family in text_string_to_metric_families(text_of(node, **settings))
        for sample in family.samples
    }


def device(index: int, *names: str, **facts: Any) -> Device:
    return Device(index, f"GPU-{index}", "NVIDIA H200", facts.pop("source", "gpm"), tuple(map(catalog().get, names)), **facts)


def test_last_value_windows_and_counters(still_node: Any) -> None:
    node = still_node(device(0, "sm_active", "energy"))
    # The window in which sampling began is not whole: the one from 5 s to 10 s is the first that shows.
    for tick in range(101):
        node.stores[0].add(START + tick / 10, np.array([tick / 200, 1000 + tick]), 0.0)
    got = page(node)
    assert got["epochcast_gpu_sm_active_ratio", "0"] == 0.5
    assert got["epochcast_gpu_sm_active_ratio_avg", "0"] == pytest.approx(np.mean(np.arange(50, 100) / 200))
    assert (got["epochcast_gpu_sm_active_ratio_min", "0"], got["epochcast_gpu_sm_active_ratio_max", "0"]) == (0.25, 0.495)
    assert got["epochcast_gpu_sm_active_seconds_total", "0"] == pytest.approx(sum(range(1, 101)) / 200 * 0.1)
    assert got["epochcast_gpu_energy_joules_total", "0"] == 1100
    assert not [name for name, _ in got if name.startswith("epochcast_gpu_energy_joules_") and not name.endswith("_total")]


def test_a_blank_value_or_a_silent_device_has_no_line(still_node: Any) -> None:
    node = still_node(device(0, "power", "temperature"), device(1, "power"))
    for store in node.stores:
        store.add(START, np.full(len(store.device.metrics), 50.0), 0.0)
    node.clock.wait(0.6)
    node.stores[0].add(START + 0.6, np.array([NAN, NAN]), 0.6)
    got = page(node)
    assert ("epochcast_gpu_power_watts", "0") not in got
    assert got["epochcast_gpu_temperature_celsius", "0"] == 50
    assert got["epochcast_gpu_power_watts", "1"] == 50
    assert (got["epochcast_gpu_up", "0"], got["epochcast_gpu_up", "1"]) == (1, 1)
    node.clock.wait(0.5)  # GPU 1 has now been silent for 1.1 s
    node.stores[1].missed_ticks = 11
    got = page(node)
    assert ("epochcast_gpu_power_watts", "1") not in got
    assert (got["epochcast_gpu_up", "0"], got["epochcast_gpu_up", "1"]) == (1, 0)
    assert got["epochcast_gpu_info", "1"] == 1
    assert got["epochcast_gpu_missed_ticks_total", "1"] == 11
    assert ("epochcast_gpu_temperature_celsius", "0") in got


def test_a_gpu_that_is_gone_is_known_and_not_up(still_node: Any) -> None:
    node, before = still_node(device(0, "power")), still_node(device(0, "power"), device(1, "power"))
    for store in (*node.stores, *before.stores):
        store.add(START, np.array([50.0]), 0.0)
    node.gone = [before.stores[1]]
    got = page(node)
    assert (got["epochcast_gpu_up", "0"], got["epochcast_gpu_up", "1"]) == (1, 0)
    assert ("epochcast_gpu_power_watts", "1") not in got


def test_where_a_source_fell_back_and_what_joins_a_gpu_with_other_lists_shows(still_node: Any) -> None:
    node = still_node(
        device(0, "power"), device(1, "power", source="nvml", unmeasured={"sm_active": "too old", "energy": "no"})
    )
    node.facts["GPU-1"] = {name: Attribute(f"a {name}", "nvml") for name in ("driver_version", "pci_bus_id", "serial")}
    node.choices = (
        Choice("GPU-0", "0", "NVIDIA H200", "gpm", "every metric"),
        Choice("GPU-1", "1", "NVIDIA H200", "nvml", "utilisation", {"gpm": "before Hopper", "dcgm": "not installed"}),
    )
    got = page(node)
    assert (got["epochcast_gpu_source_fallback", "0"], got["epochcast_gpu_source_fallback", "1"]) == (0, 1)
    assert 'epochcast_gpu_source_fallback{gpu="1",name="NVIDIA H200",source="nvml",uuid="GPU-1"} 1.0' in text_of(node)
    assert 'driver_version="a driver_version",gpu="1",name="NVIDIA H200",pci_bus_id="a pci_bus_id",serial=' in text_of(node)


def test_each_sampler_tells_its_own_figures(still_node: Any) -> None:
    node = still_node(device(0, "power"), device(1, "power", source="nvml"))
    first, second = node.samplers
    first.missed_ticks, second.governed_ticks, second.last_sample_time = 3, 40, START
    second.tick_seconds.add(0.002)
    second.source.blanks.update({(0, "power"): 2})
    text = text_of(node)
    for line in (
        'epochcast_agent_missed_ticks_total{source="gpm"} 3.0',
        'epochcast_agent_governed_ticks_total{source="nvml"} 40.0',
        'epochcast_agent_target_hertz{source="nvml"} 10.0',
        'epochcast_agent_tick_seconds_bucket{le="0.001",source="nvml"} 0.0',
        'epochcast_agent_tick_seconds_bucket{le="0.0025",source="nvml"} 1.0',
        'epochcast_agent_tick_seconds_count{source="nvml"} 1.0',
        'epochcast_agent_blanks_total{gpu="1",metric="power",uuid="GPU-1"} 2.0',
        'epochcast_agent_last_sample_timestamp_seconds{source="nvml"} 1.7e+09',
    ):
        assert f"\n{line}\n" in text
    assert 'last_sample_timestamp_seconds{source="gpm"}' not in text


def test_a_foreign_column_cannot_take_a_name_of_ours(still_node: Any, promtool: Any) -> None:
    names = ["power_watts_avg", "info", "up", "xid_errors", "sm_active_seconds_total", "energy_joules_total", ""]
    metrics = [Metric(name, unit="", tier="slow", help=f"Column {name!r}.") for name in names]
    ours = [catalog()[name] for name in ("power", "sm_active", "energy")]
    node = still_node(Device(0, "replay-x", "x", "replay", (*metrics, *ours)))
    node.stores[0].add(START, np.arange(10.0), 0.0)
    text = text_of(node)
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert sorted(set(families)) == sorted(families)
    got = page(node)
    assert (got["epochcast_gpu_power_watts", "0"], got["epochcast_gpu_energy_joules_total", "0"]) == (7, 9)
    assert promtool(text) == (0, "")


@pytest.fixture
def large_node(still_node: Any) -> Any:
    """Two GPUs with every metric of the catalogue and twelve seconds of samples, one under a name that needs escaping."""
    node = still_node(device(0, *catalog()), Device(1, "GPU-1", 'a "b" \\ c\n', "nvml", tuple(catalog().values())))
    for tick in range(120):
        for store in node.stores:
            store.add(START + tick / 10, np.full(len(catalog()), tick / 200), 0.0)
    for sampler in node.samplers:
        sampler.last_sample_time = START + 12
        sampler.source.blanks.update({(0, "power"): 2})
    return node


def test_a_page_is_made_once_per_newest_sample(large_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = registry(large_node, Config(families=EVERYTHING))
    made = []
    collect = everything.collect
    monkeypatch.setattr(everything, "collect", lambda: made.append(1) or collect())
    pages = MetricsPage(large_node, everything)
    first, kind = pages.render("", False)
    assert kind.startswith("text/plain")
    assert pages.render("", False)[0] is first
    assert pages.render("", True)[0] is pages.render("", True)[0]
    assert len(made) == 2  # each form once
    large_node.samplers[1].last_sample_time += 0.1
    assert pages.render("", False)[0] is not first
    assert len(made) == 3
    # Where no sample comes any more, a page does not stay for ever: the devices must leave it.
    large_node.clock.wait(LONGEST_LIFE_S + 1)
    assert b"epochcast_gpu_power_watts{" in first
    assert b"epochcast_gpu_power_watts{" not in pages.render("", False)[0]
    assert len(made) == 4


def test_the_page_of_another_set_of_samplers_is_made_anew(still_node: Any) -> None:
    node = still_node(device(0, "power"))
    pages = MetricsPage(node, registry(node, Config()))
    before, _ = pages.render("", False)
    node.samplers = still_node(device(1, "power")).samplers
    assert b'gpu="1"' in pages.render("", False)[0]
    assert b'gpu="1"' not in before


def test_promtool_accepts_every_metric_of_the_catalogue(large_node: Any, promtool: Any) -> None:
    text = text_of(large_node)
    assert len([line for line in text.splitlines() if line.startswith("epochcast_gpu_sm_active")]) == 2 * 5
    assert promtool(text) == (0, "")


def test_by_default_a_gpu_has_at_most_45_series_and_its_agent_35(large_node: Any, promtool: Any) -> None:
    text = generate_latest(registry(large_node, Config())).decode()
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert 40 <= len([line for line in series if re.search(r'[{,]gpu="1"', line) and "epochcast_host" not in line]) <= 45
    of_one_source = [line for line in series if 'gpu="' not in line and 'source="nvml"' not in line]
    assert len(of_one_source) <= 35
    assert promtool(text) == (0, "")


def test_the_setting_shows_other_families(still_node: Any) -> None:
    node = still_node(device(0, "power", "fan_speed", "sm_clock"))
    node.stores[0].add(START, np.array([50.0, 0.5, 1e9]), 0.0)

    def shown(**families: Any) -> set[str]:
        text = generate_latest(registry(node, Config(families=families))).decode()
        return {name for name in re.findall(r"^(epochcast_gpu_\w+){", text, re.M) if "power" in name or "fan" in name}

    assert shown() == set()  # power has a mean, of no whole window yet; the fan nothing
    assert shown(fan_speed=["last"], power=[]) == {"epochcast_gpu_fan_speed_ratio"}
    assert shown(**{"*": ["last", "seconds"]}) == {
        *("epochcast_gpu_fan_speed_ratio", "epochcast_gpu_fan_speed_seconds_total", "epochcast_gpu_power_watts")
    }
