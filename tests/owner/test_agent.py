"""The agent: 10 Hz to Prometheus, DCGM and dcgm-exporter as its sources, deviceQuery's figures, remote write."""

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MIB = 2**20
# What GPU 0 of the exporter's page has.
ON_PAGE = {
    "gr_engine_active": 0.75,
    "dram_active": 0.25,
    "pcie_tx": 123456789,
    "gpu_utilization": 0.87,
    "memory_utilization": 0.5,
    "power_average": 61.538,
    "energy": 1.5e9,
    "sm_clock": 1410e6,
    "memory_clock": 1593e6,
    "temperature": 41,
    "memory_used": 512 * MIB,
    "memory_free": 40000 * MIB,
}
# The black-box paper's static list (section III-A.2), from nvidia-smi and deviceQuery: what the agent calls it, of an H200.
STATIC = {
    "bar1_total": 268435456,  # BITTL
    "max_sm_clock": 1.98e9,  # SMMAX
    "shutdown_temperature": 92.0,  # SHTMP
    "power_limit": 700.0,  # EPLMT
    "pcie_link_width": 16,  # PCILW
    "memory_total": 150754820096,  # MEM_SIZE
    "global_memory": 150_000_000_000,  # TOTAL_GM
    "cuda_cores": 16896,  # CUDA_CORES
    "cuda_cores_per_sm": 128,  # CUDA_CORES/MP
    "boost_clock": 1.98e9,  # GPU_Max_CL
    "memory_clock": 3.201e9,  # MEM_CL
    "memory_bus_width": 6144,  # MEM_BUSWIDTH
    "tensor_cores": 528,  # TENSOR_CORES
    "l1_cache_per_sm": 262144,  # L1_CACHE_SIZE
    "l2_cache": 62_914_560,  # L2_CACHE_SIZE
    "shared_memory_per_sm": 233_472,  # TOTAL_SMPM
    "copy_engines": 3,  # C_CK
    "fp16_flops": 133.8e12,  # FP16 TFLOPS
    "fp32_flops": 66.9e12,  # FP32 TFLOPS
    "fp64_flops": 33.45e12,  # FP64 TFLOPS
    "compute_capability": "9.0",  # CC
    "max_resident_grids": 128,  # MNG
    "max_blocks_per_sm": 32,  # MNBWM blocks
    "max_warps_per_sm": 64,  # MNBWM warps
    "max_threads_per_sm": 2048,  # MNT
    "shared_memory_per_block": 232_448,  # MNSM
}


def test_prometheus_scrapes_ten_new_readings_a_second_from_the_agent(
    start_agent: Callable[..., Any], database: Any, driver: dict[str, str], until: Any
) -> None:
    prometheus = database("prometheus", start_agent(env=driver).port, interval="100ms")

    def of(expression: str) -> float:
        return max((float(row["value"][1]) for row in prometheus.query(expression)), default=0.0)

    # A busy machine may take a while to let both work undisturbed for ten seconds.
    scrapes, missed = (f"{what}(epochcast_gpu_missed_ticks_total[10s])" for what in ("count_over_time", "increase"))
    until(lambda: of(scrapes) >= 95 and of(missed) <= 2)
    assert 40 <= of('changes(epochcast_agent_last_sample_timestamp_seconds{source="gpm"}[5s])') <= 51
    (series,) = prometheus.query('epochcast_gpu_sm_active_ratio{gpu="0"}[8s]')
    values = np.array([float(value) for _, value in series["values"]])
    assert (values.min(), values.max()) == (0, pytest.approx(0.85))
    assert values.mean() == pytest.approx(0.85 / 2, rel=0.15)  # two periods, half of each busy
    # One scrape a second would do as well: a counter integrates every reading.
    (rate,) = prometheus.query('rate(epochcast_gpu_sm_active_seconds_total{gpu="0"}[8s])')
    assert float(rate["value"][1]) == pytest.approx(0.85 / 2, rel=0.15)


def test_a_remote_write_store_has_every_sample_with_its_own_time(
    start_agent: Callable[..., Any], database: Any, driver: dict[str, str], tmp_path: Path, until: Any
) -> None:
    prometheus = database("prometheus")
    (tmp_path / "agent.toml").write_text(f'[push]\nurl = "{prometheus.url}/api/v1/write"\ninterval = 0.5\n')
    agent = start_agent("--config", tmp_path / "agent.toml", env=driver)
    count = "count_over_time(epochcast_gpu_power_watts[1m])"
    until(lambda: [int(row["value"][1]) >= 60 for row in prometheus.query(count)] == [True, True])
    served = {gpu["uuid"]: gpu for gpu in agent.json("/api/v1/samples?metric=power")["gpus"]}
    assert agent.stop()[0] == 0
    stored = {series["metric"]["uuid"]: series["values"] for series in prometheus.query("epochcast_gpu_power_watts[1m]")}
    assert len(served) == 2 and served.keys() == stored.keys()
    for uuid, gpu in served.items():
        sent = {round(float(stamp) * 1000): np.float32(value) for stamp, value in stored[uuid]}
        read = {round(time * 1000): np.float32(value) for time, value in zip(gpu["time"], gpu["metrics"]["power"], strict=True)}
        assert len(read) >= 60 and read.items() <= sent.items()
        assert np.median(np.diff(sorted(sent))) == pytest.approx(100, abs=5)
    assert prometheus.query("epochcast_gpu_power_watts") == []  # an agent that ended says so


def test_dcgm_is_read_ten_times_a_second(start_agent: Callable[..., Any], root: Path, until: Any) -> None:
    bindings = root / "tests" / "agent" / "dcgm" / "fake_dcgm"
    agent = start_agent("--source", "dcgm", env={"DCGM_BINDINGS": str(bindings), "FAKE_DCGM_LIVE": "1"})
    samples: Callable[[], Any] = partial(agent.json, "/api/v1/samples?metric=sm_active")
    until(lambda: len(samples()["gpus"][0]["time"]) >= 40)
    for number, gpu in enumerate(samples()["gpus"]):
        assert (gpu["source"], gpu["name"], gpu["uuid"]) == ("dcgm", "NVIDIA A100", ("GPU-aaaa", "GPU-bbbb")[number])
        time, values = np.array(gpu["time"]), np.array(gpu["metrics"]["sm_active"], float)
        assert np.median(np.diff(time)) == pytest.approx(0.1, abs=0.005)
        # The stand-in's activity is its GPU's number and the tenths of its clock.
        known = ~np.isnan(values)
        off = (16 * values[known] - number - time[known] * 10 % 1000 / 1000 + 0.5) % 1 - 0.5
        assert known.sum() >= 38 and np.abs(off).max() < 0.0021
    status, errors = agent.stop()
    assert status == 0 and "Traceback" not in errors


def test_dcgm_exporter_is_read_in_base_units(
    start_agent: Callable[..., Any], running: Any, root: Path, tmp_path: Path, until: Any
) -> None:
    page = (root / "tests" / "agent" / "dcgm_exporter" / "page_3.prom").read_text()
    (tmp_path / "metrics").write_text(page)
    exporter = running(ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))))
    (tmp_path / "agent.toml").write_text(f'exporter = "http://127.0.0.1:{exporter.server_port}/metrics"\n')
    agent = start_agent("--config", tmp_path / "agent.toml", "--source", "dcgm-exporter")
    until(lambda: agent.json("/api/v1/samples")["gpus"][0]["time"])
    first, second = agent.json("/api/v1/samples")["gpus"]
    assert {name: first["metrics"][name][0] for name in ON_PAGE} == pytest.approx(ON_PAGE)
    assert second["unmeasured"]["gpu_utilization"] == "the exporter has no value of it for this device"


def test_device_query_s_figures_come_with_each_gpu(start_agent: Callable[..., Any], driver: dict[str, str], until: Any) -> None:
    agent = start_agent(env=driver)
    until(lambda: "l2_cache" in agent.json("/api/v1/gpus")["gpus"][0]["static"])
    h200, t4 = (gpu["static"] for gpu in agent.json("/api/v1/gpus")["gpus"])
    assert {name: h200[name]["value"] for name in STATIC} == {
        name: value if isinstance(value, str) else pytest.approx(value, rel=1e-3) for name, value in STATIC.items()
    }
    assert {h200[name]["source"] for name in STATIC} == {"nvml", "cuda", "table"}
    assert (t4["cuda_cores"]["value"], t4["compute_capability"]["value"]) == (2560, "7.5")
    assert t4["max_blocks_per_sm"] == {"value": 16, "source": "table"}  # which an old driver does not tell
