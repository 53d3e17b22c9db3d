"""The bench for a GPU with CUDA's answers and the profile replaced: what goes into a row, and where from. CUDA does not run."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.kernel_files import kineto_trace
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table
from epochcast.analyzer.backends.occupancy.measurement import gpu_bench
from epochcast.analyzer.backends.occupancy.measurement.gpu_bench import GpuBench
from epochcast.analyzer.backends.occupancy.measurement.profiled_step import MARKERS, StepProfiler
from epochcast.analyzer.backends.occupancy.measurement.running import RunningNetworks
from epochcast.regressor import InputError as UnknownGpu
from epochcast.regressor import load_catalog

LSTM = Configuration("lstm", 3, sequence=5, hidden=8, layers=1)
H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "regsPerBlock": 65536,
    "sharedMemPerMultiprocessor": 233472,
    "sharedMemPerBlockOptin": 232448,
    "numSms": 132,
    "warpSize": 32,
}


def kernel(name, blocks, threads, duration, shared_memory=0):
    details = {"device": 0, "grid": [blocks, 1, 1], "block": [threads, 1, 1], "registers per thread": 32}
    return {"cat": "kernel", "name": name, "dur": duration, "args": {**details, "shared memory": shared_memory}}


# 66 blocks of 8 warps on 132 SMs of 64 warps: half a block per SM. 132 x 16 blocks of 4 warps: full. The third is impossible.
STEP = [kernel("gemm", 66, 256, 30.0), kernel("relu", 132 * 16, 128, 10.0), kernel("strange", 1, 32, 1.0, 2**20)]
STEP.append({"cat": "kernel", "name": "without a launch configuration", "dur": 1.0, "args": {"device": 0}})


def record(step, wait):
    step()
    markers = [kernel("hypot", 1, 64, 1.0)] * MARKERS
    trace = {"deviceProperties": [H200], "traceEvents": [*markers, *STEP]}
    return kineto_trace.read(json.dumps(trace), "the profile")


@pytest.fixture
def cuda(monkeypatch):
    """Answers for a GPU; the networks run on the CPU."""
    called = []
    answers = {
        "get_device_name": "NVIDIA H200",
        "get_device_properties": SimpleNamespace(uuid="01234567-89ab-cdef-0123-456789abcdef"),
        "max_memory_allocated": 5_000_000,
        "reset_peak_memory_stats": None,
        "synchronize": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name, answer=answer: called.append(name) or answer)
    monkeypatch.setattr(gpu_bench, "RunningNetworks", lambda device: RunningNetworks("cpu"))
    monkeypatch.setattr(gpu_bench, "StepProfiler", lambda: StepProfiler(record))
    monkeypatch.setattr(gpu_bench, "NvmlUtilisation", Utilisation)
    return called


class Utilisation:
    problem = ""

    def __init__(self, uuid):
        assert uuid == "GPU-01234567-89ab-cdef-0123-456789abcdef"

    def __call__(self):
        return 0.75


class Ncu:
    problem = ""

    def kernels(self, configuration, launches):
        assert (configuration, launches) == (LSTM, 4)
        return kernel_table(kernel=["gemm", "relu"], duration=[3e-5, 1e-5], achieved=[0.03, 0.9])


def test_a_row_holds_what_was_recorded_and_read(cuda):
    bench = GpuBench(load_catalog(), 0.0)
    assert (bench.gpu, bench.labels) == ("H200 SXM", ("launch_config",))
    assert bench.place["device"] == "NVIDIA H200"
    bench._networks.step(Configuration("lstm", 1, sequence=1, hidden=16, layers=1))  # one that is kept beside
    others = sum(one.nbytes for one in torch.nn.LSTM(16, 16).parameters())
    (measured,) = bench.measure(LSTM, ["launch_config"])
    row = measured.row
    assert (row["mean"], row["max"]) == (pytest.approx((0.0625 + 1.0) / 2), 1.0)
    assert row["time_mean"] == pytest.approx((30 * 0.0625 + 10 * 1.0) / 40)
    assert (row["kernels"], row["unknown"]) == (4, 2)
    assert row["memory_bytes"] == 5_000_000 - others
    assert row["step_s"] > 0
    assert row["steps"] == 3
    assert cuda.count("synchronize") >= 5
    assert cuda.index("reset_peak_memory_stats") < cuda.index("max_memory_allocated")
    assert measured.kernels["kernel"].tolist() == [event["name"] for event in STEP]
    assert bench.problems == []


def test_ncu_s_labels_are_a_row_of_their_own(cuda):
    bench = GpuBench(load_catalog(), 0.0, Ncu())
    first, second = bench.measure(LSTM, bench.labels)
    assert (first.row["labels"], second.row["labels"]) == ("launch_config", "ncu")
    assert second.row["mean"] == pytest.approx((0.03 + 0.9) / 2)
    assert second.row["time_mean"] == pytest.approx((3 * 0.03 + 0.9) / 4)
    assert second.row["step_s"] == first.row["step_s"]
    (alone,) = bench.measure(LSTM, ["ncu"])
    assert alone.row["labels"] == "ncu"


def test_an_unknown_gpu_is_refused_before_anything_is_measured(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA XPU")
    with pytest.raises(UnknownGpu, match="unknown GPU 'NVIDIA XPU'"):
        GpuBench(load_catalog(), 0.0)
