"""pynvml against a stub libnvidia-ml compiled from C: the real binding, the real structures, no GPU."""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent.errors import InputError
from epochcast.agent.sources import Options, Tick
from epochcast.agent.sources.nvml import NvmlSource


@pytest.fixture
def mood(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point pynvml at the stub; files put into the folder returned change what the stub does (see nvml_stub.c)."""
    folder = tmp_path / "mood"
    folder.mkdir()
    monkeypatch.setenv("NVML_STUB_DIR", str(folder))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return folder


@pytest.fixture
def source(mood: Path) -> Iterator[NvmlSource]:
    opened = NvmlSource(Options())
    yield opened
    opened.close()


def rows(source: NvmlSource, elapsed: float, slow: bool = True) -> dict[int, dict[str, float]]:
    """Return the values by GPU and metric."""
    return {
        row.device: dict(zip((metric.name for metric in source.devices[row.device].metrics), row.values.tolist(), strict=True))
        for row in source.read(Tick(1_700_000_000 + elapsed, elapsed, slow))
    }


def test_a_healthy_gpu_gives_base_units(source: NvmlSource) -> None:
    first, second = rows(source, 0.0)[0], rows(source, 0.1)[0]
    assert second["energy"] - first["energy"] == pytest.approx(65)  # the stub adds 65 000 mJ at each reading
    assert {name: value for name, value in first.items() if name != "energy"} == pytest.approx(
        {
            "power": 650,
            "power_average": 600,
            "gpu_utilization": 0.87,
            "memory_utilization": 0.12,
            "sm_clock": 1.98e9,
            "memory_clock": 3.201e9,
            "temperature": 55,
            "memory_used": 300,
            "memory_free": 600,
            "bar1_used": 56,
            "bar1_free": 200,
        }
    )


def test_static_attributes(source: NvmlSource) -> None:
    device = source.devices[0]
    assert (device.index, device.uuid, device.name) == (0, "GPU-stub-0", "NVIDIA H200")
    assert {fact.source for fact in device.static.values()} == {"nvml"}
    assert {name: fact.value for name, fact in device.static.items()} == {
        "memory_total": 1000,
        "bar1_total": 256,
        "max_sm_clock": 1.98e9,
        "max_memory_clock": 3.201e9,
        "memory_bus_width": 6144,
        "compute_capability": "9.0",
        "power_limit": 700.0,
        "shutdown_temperature": 92.0,
        "pcie_link_width": 16,
        "driver_version": "999.1",
    }  # no cuda_cores: the stub, like an old driver, lacks that symbol


def test_between_slow_readings_only_the_fast_tier_is_read(source: NvmlSource) -> None:
    got = rows(source, 0.1, slow=False)[0]
    assert {name for name, value in got.items() if not np.isnan(value)} == {"power", "energy"}


def test_an_old_gpu_is_read_through_older_calls_and_the_rest_is_left_out_with_a_reason(source: NvmlSource) -> None:
    got, device = rows(source, 0.0)[1], source.devices[1]
    # Turing: nvmlDeviceGetPowerUsage is the instant power there, so there is no average.
    assert (got["power"], got["energy"], got["memory_used"]) == pytest.approx((70, 1.5, 400))
    assert set(device.unmeasured) == {"power_average", "bar1_used", "bar1_free"}
    assert all(device.unmeasured.values())


def test_a_blank_reading_is_absent_and_costs_nothing_else(source: NvmlSource, mood: Path) -> None:
    (mood / "blank-0").touch()
    got = rows(source, 1.0)[0]
    assert np.isnan([got["gpu_utilization"], got["memory_utilization"]]).all()
    assert got["temperature"] == 55
    (mood / "blank-0").unlink()
    assert rows(source, 2.0)[0]["gpu_utilization"] == pytest.approx(0.87)


def test_a_lost_gpu_is_left_out_and_comes_back_while_the_other_goes_on(source: NvmlSource, mood: Path) -> None:
    assert set(rows(source, 0.0)) == {0, 1}
    (mood / "lost-0").touch()
    tried = [elapsed for elapsed in np.arange(1, 100) / 10 if set(rows(source, float(elapsed), slow=False)) == {1}]
    assert len(tried) == 99  # at no tick did GPU 1 suffer
    (mood / "lost-0").unlink()
    # Tried at 0.1 s, then 1, 2, 4, 8 s after the try before: next at 15.1 s.
    assert set(rows(source, 15.0, slow=False)) == {1}
    back = rows(source, 15.1, slow=False)
    assert set(back) == {0, 1}
    assert back[0]["temperature"] == 55  # all of it, as after a start
    # The backoff starts anew.
    (mood / "lost-0").touch()
    rows(source, 15.2)
    (mood / "lost-0").unlink()
    assert set(rows(source, 16.3)) == {0, 1}


def test_with_every_gpu_gone_the_library_is_started_anew(source: NvmlSource, mood: Path) -> None:
    for index in range(2):
        (mood / f"lost-{index}").touch()
    for elapsed in (0.0, 0.5, 1.0):
        with pytest.raises(RuntimeError, match="no GPU answers"):
            rows(source, elapsed)
    for index in range(2):
        (mood / f"lost-{index}").unlink()
    pynvml.nvmlShutdown()  # the driver went away under us: only a new nvmlInit helps
    assert set(rows(source, 3.1)) == {0, 1}


def test_a_gpu_that_is_lost_at_the_start_does_not_keep_the_others_out(mood: Path) -> None:
    (mood / "lost-0").touch()
    source = NvmlSource(Options())
    assert [device.uuid for device in source.devices] == ["GPU-stub-1"]
    assert set(rows(source, 0.0)) == {0}
    source.close()


def test_a_library_of_another_version_only_costs_the_metric(mood: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mismatch(*_: Any) -> None:
        raise pynvml.NVMLLibraryMismatchError("unversioned function")  # not an NVMLError

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", mismatch)
    source = NvmlSource(Options())
    assert "unversioned function" in source.devices[0].unmeasured["temperature"]
    assert rows(source, 0.0)[0]["power"] == 650
    source.close()


def test_an_unknown_error_about_a_static_fact_costs_that_fact_alone(mood: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrPcieLinkWidth", unknown)
    source = NvmlSource(Options())
    assert len(source.devices) == 2
    assert "pcie_link_width" not in source.devices[0].static
    assert "power_limit" in source.devices[0].static
    source.close()


def test_a_driver_without_gpus(mood: Path) -> None:
    (mood / "empty").touch()
    with pytest.raises(InputError, match="no GPU that answers"):
        NvmlSource(Options())


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*_: Any) -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    with pytest.raises(InputError, match=r"source 'nvml' cannot use the NVIDIA driver.*--source host"):
        NvmlSource(Options())


def test_the_whole_agent_over_the_stub(nvml_library: Path, start_agent: Callable[..., Any], tmp_path: Path) -> None:
    mood = tmp_path / "mood"
    mood.mkdir()
    stub = {"LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_DIR": str(mood)}
    agent = start_agent("--source", "auto", env=stub)
    assert [(gpu["name"], gpu["source"]) for gpu in agent.json("/api/v1/gpus")["gpus"]] == [
        ("NVIDIA H200", "nvml"),
        ("Tesla T4", "nvml"),
    ]
    page = agent.text("/metrics")
    assert 'epochcast_gpu_power_watts{gpu="0",name="NVIDIA H200",uuid="GPU-stub-0"} 650.0' in page
    assert 'epochcast_gpu_energy_joules_total{gpu="1",name="Tesla T4",uuid="GPU-stub-1"} 1.5' in page
    (samples,) = agent.json("/api/v1/samples?gpu=GPU-stub-0&metric=energy")["gpus"]
    steps = np.diff(samples["metrics"]["energy"])
    assert np.allclose(steps, 65)  # exact at 5e9 J, where float32 would step by 512
    assert agent.stop()[0] == 0


def test_the_agent_shows_a_lost_gpu_as_absent(nvml_library: Path, start_agent: Callable[..., Any], tmp_path: Path) -> None:
    mood = tmp_path / "mood"
    mood.mkdir()
    agent = start_agent("--source", "nvml", env={"LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_DIR": str(mood)})

    def shown() -> set[str]:
        return {index for index in "01" if f'epochcast_gpu_power_watts{{gpu="{index}"' in agent.text("/metrics")}

    def wait_for(expected: set[str]) -> None:
        deadline = time.monotonic() + 20
        while shown() != expected:
            assert time.monotonic() < deadline, f"/metrics shows GPUs {shown()}, not {expected}"
            time.sleep(0.1)

    wait_for({"0", "1"})
    (mood / "lost-1").touch()
    wait_for({"0"})
    assert agent.json("/healthz")["status"] == "ok"
    (mood / "lost-1").unlink()
    wait_for({"0", "1"})
    (lost, whole) = sorted(agent.json("/api/v1/samples?metric=power")["gpus"], key=lambda gpu: len(gpu["time"]))
    assert (lost["index"], whole["index"]) == (1, 0)
    assert lost["missed_ticks"] - whole["missed_ticks"] >= len(whole["time"]) - len(lost["time"])
    assert "GPU 1 (GPU-stub-1) does not answer" in agent.stop()[1]


def test_check_over_the_stub(nvml_library: Path) -> None:
    command = [sys.executable, "-m", "epochcast.agent", "check", "--json"]
    stub = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent)}
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=stub).stdout)
    assert [gpu["name"] for gpu in found["gpus"] if gpu["source"] == "nvml"] == ["NVIDIA H200", "Tesla T4"]
    assert any("Tesla T4: bar1_used is not measured" in problem for problem in found["problems"])
    assert any("sm_active" in problem for problem in found["problems"])
