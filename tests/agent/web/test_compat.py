import socket
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest

from epochcast.agent.catalog import catalog
from epochcast.agent.compat import DcgmExporterCollector
from epochcast.agent.config import Config
from epochcast.agent.exposition import registry
from epochcast.agent.sources import Attribute, Device
from epochcast.common.errors import InputError

START = 1_700_000_000.0
XID = "DCGM_FI_DEV_XID_ERRORS"


def found(node: Any, generation: str = "4.8") -> dict[tuple[str, str], tuple[float, dict[str, str]]]:
    """Return value and labels by (name, GPU instance)."""
    return {
        (sample.name, sample.labels.get("GPU_I_ID", "")): (sample.value, sample.labels)
        for family in DcgmExporterCollector(node, generation).collect()
        for sample in family.samples
    }


def test_names_units_and_labels_of_4_9(still_node: Any) -> None:
    columns = ("sm_clock", "energy", "gpu_utilization", "memory_used", "power_average")
    node = still_node(Device(0, "GPU-a", "NVIDIA H100", "gpm", tuple(catalog()[name] for name in columns)))
    node.facts["GPU-a"] = {"driver_version": Attribute("580.126.09", "nvml"), "memory_total": Attribute(80 * 2**30, "nvml")}
    node.stores[0].add(START, np.array([1.98e9, 1234.5, 0.87, 2**30, 650.0]), 0.0)
    got = found(node, "4.9")
    assert {name: value for (name, _), (value, _) in got.items()} == {
        "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.98e9,
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": 1234.5,
        "DCGM_FI_DEV_GPU_UTIL_RATIO": 0.87,
        "DCGM_FI_DEV_FB_USED_BYTES": 2**30,
        "DCGM_FI_DEV_FB_CAPACITY_BYTES": 80 * 2**30,
        "DCGM_FI_DEV_BOARD_POWER_WATTS": 650,
        "DCGM_FI_DEV_XID_ERROR": 0,
    }
    labels = got["DCGM_FI_DEV_SM_CLOCK_HERTZ", ""][1]
    assert (labels["hostname"], labels["DCGM_FI_SYSTEM_DRIVER_VERSION"]) == (socket.gethostname(), "580.126.09")
    assert "Hostname" not in labels


def test_an_instance_stands_for_its_gpu(still_node: Any) -> None:
    own = catalog()["memory_used"]
    parent = Device(0, "GPU-a", "NVIDIA H100 80GB HBM3", "gpm", (catalog()["power_average"], own))
    part = Device(0, "MIG-b", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpm", (catalog()["sm_active"],), instance=7)
    nameless = Device(0, "MIG-c", "NVIDIA H100 80GB HBM3 MIG", "gpm", (catalog()["sm_active"],), instance=8)
    node = still_node(parent, part, nameless)
    for store in node.stores:
        store.add(START, np.array([0.5] * len(store.device.metrics)), 0.0)
    got = found(node)
    _, labels = got["DCGM_FI_PROF_SM_ACTIVE", "7"]
    assert (labels["gpu"], labels["UUID"], labels["modelName"]) == ("0", "GPU-a", "NVIDIA H100 80GB HBM3")
    assert (labels["GPU_I_ID"], labels["GPU_I_PROFILE"]) == ("7", "1g.10gb")
    assert "GPU_I_PROFILE" not in got["DCGM_FI_PROF_SM_ACTIVE", "8"][1]
    assert {name for name, instance in got if not instance} == set()  # the GPU itself is not listed
    assert got["DCGM_FI_DEV_POWER_USAGE", "7"][0] == got["DCGM_FI_DEV_POWER_USAGE", "8"][0] == 0.5  # the whole card's, as there
    assert ("DCGM_FI_DEV_FB_USED", "7") not in got  # its own memory is not known, and the card's is another


def test_instant_power_stands_in_where_there_is_no_average(still_node: Any) -> None:
    node = still_node(Device(0, "GPU-a", "Tesla T4", "nvml", (catalog()["power"], catalog()["power_average"])))
    node.stores[0].add(START, np.array([70.0, np.nan]), 0.0)
    assert found(node)["DCGM_FI_DEV_POWER_USAGE", ""][0] == 70
    node.stores[0].add(START + 0.1, np.array([70.0, 65.0]), 0.0)
    assert found(node)["DCGM_FI_DEV_POWER_USAGE", ""][0] == 65


def test_what_is_blank_silent_or_no_gpu_is_left_out(still_node: Any) -> None:
    gpu = Device(0, "GPU-a", "Tesla T4", "nvml", (catalog()["temperature"], catalog()["sm_clock"]))
    host = Device(0, "host-x", "Xeon", "host", (catalog()["cpu_utilization"],))
    node = still_node(gpu, host)
    node.stores[0].add(START, np.array([50.0, np.nan]), 0.0)
    node.stores[1].add(START, np.array([0.5]), 0.0)
    assert [name for name, _ in found(node)] == [XID, "DCGM_FI_DEV_GPU_TEMP"]
    node.clock.wait(1.1)
    assert not found(node)


def test_they_are_on_the_page_only_when_asked_for(still_node: Any) -> None:
    node = still_node(Device(0, "GPU-a", "Tesla T4", "nvml", (catalog()["energy"],)))
    node.stores[0].add(START, np.array([2.0]), 0.0)
    assert "DCGM_FI" not in generate_latest(registry(node, Config())).decode()
    both = generate_latest(registry(node, Config(compat="dcgm-exporter"))).decode()
    assert 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{Hostname="' in both
    assert "epochcast_gpu_energy_joules_total{" in both
    assert Config(compat="dcgm-exporter=4.9")
    for wrong in ("nvidia-smi", "dcgm-exporter=4.7"):
        with pytest.raises(InputError, match=rf"compat is '{wrong}'; give one of dcgm-exporter, dcgm-exporter=4.8, .*4.9$"):
            Config(compat=wrong)
