"""GPUs and MIG instances, and what never changes of them."""

import sys
from typing import Any

import numpy as np
import pytest

from epochcast.agent.sources import dcgm_engine
from epochcast.common.errors import InputError


def test_devices_and_what_never_changes(host: Any, open_dcgm: Any) -> None:
    source = open_dcgm()
    assert [(device.index, device.uuid, device.name, device.source) for device in source.devices] == [
        (1, "GPU-aaaa", "NVIDIA A100", "dcgm"),  # DCGM's GPU 0 is NVML's GPU 1 here
        (0, "GPU-bbbb", "NVIDIA A100", "dcgm"),
    ]
    static = {name: fact.value for name, fact in source.devices[0].static.items()}
    assert static == {
        "driver_version": "550.54",
        "compute_capability": "8.0",
        "bar1_total": 131072 * 2**20,
        "memory_total": 81920 * 2**20,
        "max_sm_clock": 1.41e9,
        "max_memory_clock": 1.593e9,
        "shutdown_temperature": 92.0,
        "power_limit": 400.0,
        "pcie_link_width": 16,
    }
    assert {fact.source for fact in source.devices[0].static.values()} == {"dcgm"}


def test_what_a_host_engine_cannot_tell_is_had_otherwise_or_done_without(
    host: Any, open_dcgm: Any, monkeypatch: pytest.MonkeyPatch, read: Any, column: Any
) -> None:
    open_dcgm().close()
    structs, agent, pydcgm = (sys.modules[name] for name in ("dcgm_structs", "dcgm_agent", "pydcgm"))

    def refuse(*_: Any) -> None:
        raise structs.DCGMError(structs.DCGM_ST_NO_DATA)

    for name in ("GetGpuAttributes", "UpdateAllFields"):
        monkeypatch.setattr(pydcgm.DcgmSystem, name, refuse)
    monkeypatch.setattr(agent, "dcgmGetLatestValues_v2", refuse)
    host.overrides[0, 54] = "GPU-cccc"  # of GPU 1 nothing tells the UUID
    host.overrides[1, 54] = "<<<NULL>>>"
    source = open_dcgm()
    (device,) = source.devices
    assert (device.uuid, device.name, "driver_version" in device.static) == ("GPU-cccc", "NVIDIA A100", False)
    assert len(column(source, read(source, 2), 0, "power")[0]) >= 15


def test_mig_instances_are_devices_with_what_is_their_own(reset: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    host = reset(instances={3: (0, 7, "3g.40gb"), 4: (0, 9, "1g.10gb")})
    source = open_dcgm()
    instance = source.devices[3]
    assert (instance.label, instance.uuid, instance.name) == ("1.9", "MIG-GPU-aaaa/9", "NVIDIA A100 MIG 1g.10gb")
    assert len(source.devices) == 4
    assert {"power", "sm_clock"} <= set(instance.unmeasured)
    assert {"sm_active", "memory_used"} <= {metric.name for metric in instance.metrics}
    time, values = column(source, read(source, 3), 3, "dram_active")
    assert np.allclose(values, (np.round(time * 10) % 1000 / 1000 + 4) / 16)
    assert set(host.group_types.values()) == {0, 3}  # DCGM's own groups of all GPUs and of all instances


def test_mig_instances_bear_the_uuids_of_nvml_where_there_is_nvml(
    reset: Any, open_dcgm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reset(instances={3: (0, 7, "3g.40gb"), 4: (0, 9, "1g.10gb")})
    monkeypatch.setattr(dcgm_engine, "mig_uuids", lambda: {("GPU-aaaa", 7): "MIG-1234"})
    assert [device.uuid for device in open_dcgm().devices[2:]] == ["MIG-1234", "MIG-GPU-aaaa/9"]


def test_only_some_gpus(host: Any, open_dcgm: Any, read: Any) -> None:
    source = open_dcgm(only=frozenset({"GPU-bbbb"}))
    assert [device.uuid for device in source.devices] == ["GPU-bbbb"]
    assert {owner for owners in host.groups.values() for owner in owners} == {(1, 1)}
    assert {row.device for row in read(source, 2)} == {0}
    with pytest.raises(InputError, match="sees none of the GPUs to read; it sees GPU-aaaa, GPU-bbbb"):
        open_dcgm(only=frozenset({"GPU-cccc"}))
