"""Which GPUs and instances there are, and drivers that give none."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources.nvml import NvmlSource
from epochcast.common.errors import InputError

UNKNOWN = pynvml.NVML_ERROR_UNKNOWN

Driver = Any
Open = Callable[..., NvmlSource]


def test_static_attributes(open_source: Open) -> None:
    device = open_source("gpus 1").devices[0]
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
        "serial": "1650000000000",
        "driver_version": "999.1",
    }


def test_a_gpu_that_was_added(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2", frozenset({"GPU-stub-1"}))
    rows(source, 0.0)
    assert not source.outdated  # GPU 0 is another source's
    nvml_driver("gpus 2\nlost 0")
    rows(source, 60.0)
    assert not source.outdated
    nvml_driver("gpus 3")
    rows(source, 120.0)
    assert source.outdated


def test_mig_instances_are_devices_with_what_is_theirs(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2\nmig 0 7:1g.18gb 9:2g.35gb:2")
    assert [(device.label, device.uuid, device.name) for device in source.devices] == [
        ("0", "GPU-stub-0", "NVIDIA H200"),
        ("0.7", "MIG-stub-0-7-0", "NVIDIA H200 MIG 1g.18gb"),
        ("0.9", "MIG-stub-0-9-0", "NVIDIA H200 MIG 2g.35gb"),  # its two compute instances share it
        ("1", "GPU-stub-1", "NVIDIA H200"),
    ]
    whole, part = source.devices[:2]
    assert "gpu_utilization" in whole.unmeasured
    assert {metric.name for metric in part.metrics} == {
        "memory_used",
        "memory_free",
        "memory_reserved",
        "bar1_used",
        "bar1_free",
    }
    assert "whole GPU" in part.unmeasured["power"]
    assert set(part.static) >= {"memory_total", "sm_count"}
    got = rows(source, 0.0)
    assert got["0.7"]["memory_used"] * 8 == pytest.approx(got["0"]["memory_used"])
    assert got["0"]["power"] == 650
    # Partitioned again.
    nvml_driver("gpus 2\nmig 0 7:1g.18gb")
    assert set(rows(source, 0.1, slow=False, rare=False)) >= {"0", "1"}
    assert not source.outdated
    rows(source, 60.0)
    assert source.outdated


def test_an_unknown_error_about_a_static_fact_costs_that_fact_alone(open_source: Open) -> None:
    source = open_source(f"gpus 2\nfail nvmlDeviceGetCurrPcieLinkWidth {UNKNOWN} 0")
    assert len(source.devices) == 2
    assert "pcie_link_width" not in source.devices[0].static
    assert "power_limit" in source.devices[0].static


def test_only_some_gpus(open_source: Open) -> None:
    source = open_source("gpus 3", frozenset({"GPU-stub-2"}))
    assert [device.index for device in source.devices] == [2]
    with pytest.raises(InputError, match=r"source 'nvml' sees none of the GPUs to read: GPU-elsewhere$"):
        open_source(only=frozenset({"GPU-elsewhere"}))


def test_a_driver_without_gpus(open_source: Open, nvml_driver: Driver) -> None:
    nvml_driver("gpus 0")
    with pytest.raises(InputError, match="no GPU that answers"):
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
