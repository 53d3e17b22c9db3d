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


@pytest.mark.parametrize(("generation", "host", "driver"), [("4.8", "Hostname", ""), ("4.9", "hostname", "SYSTEM_")])
def test_labels_and_whole_memory_are_those_of_dcgm_exporter(still_node: Any, generation: str, host: str, driver: str) -> None:
    """Names and values of the default list: see test_compat_in_prometheus.py."""
    node = still_node(Device(3, "GPU-c", "NVIDIA H100", "gpm", (catalog()["nvlink_tx"], catalog()["nvlink_rx"])))
    facts = {"pci_bus_id": "00000000:0D:00.0", "driver_version": "580.126.09", "memory_total": 80 * 2**30}
    node.facts["GPU-c"] = {name: Attribute(value, "nvml") for name, value in facts.items()}
    node.stores[0].add(START, np.array([1.024e9, np.nan]), 0.0)
    node.stores[0].last_xid = 79
    got = found(node, generation)
    xid = XID if generation == "4.8" else "DCGM_FI_DEV_XID_ERROR"
    whole = {} if generation == "4.8" else {"DCGM_FI_DEV_FB_CAPACITY_BYTES": 80 * 2**30}
    one_way = {"DCGM_FI_PROF_NVLINK_TX_BYTES": 1.024e9}  # and no sum of both
    assert {name: value for (name, _), (value, _) in got.items()} == {xid: 79, **one_way, **whole}
    assert got[xid, ""][1] == {
        "gpu": "3",
        "UUID": "GPU-c",
        "pci_bus_id": "00000000:0D:00.0",
        "device": "nvidia3",
        "modelName": "NVIDIA H100",
        host: socket.gethostname(),
        f"DCGM_FI_{driver}DRIVER_VERSION": "580.126.09",
    }


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
