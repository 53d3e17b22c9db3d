"""``epochcast occupancy-of`` as a user meets it: answers, pictures, and one sentence for bad input."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...my_gpu import MY_GPU

GPU = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def _kernel(name: str, grid: int, block: int, microseconds: float, registers: int = 32, device: int = 0) -> dict[str, Any]:
    details = {
        "device": device,
        "grid": [grid, 1, 1],
        "block": [block, 1, 1],
        "registers per thread": registers,
        "shared memory": 0,
    }
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 0, "dur": microseconds, "args": details}


KERNELS = [
    _kernel("matmul", 66, 256, 600.0),  # 66 / 132 blocks of 8 warps of 64: 1/16; an SM holds 8
    _kernel("matmul", 132, 256, 200.0),  # 1/8
    _kernel("add", 132_000, 256, 200.0),  # full
    {"cat": "gpu_memcpy", "name": "Memcpy", "dur": 5, "args": {"device": 0}},
    {"cat": "kernel", "name": "graph", "dur": 5, "args": {"device": 0, "grid": [0, 0, 0], "block": [0, 0, 0]}},
]


def _trace(folder: Path, *kernels: dict[str, Any], gpus: tuple[dict[str, Any], ...] = (GPU,)) -> str:
    path = folder / "trace.json"
    path.write_text(json.dumps({"deviceProperties": gpus, "traceEvents": kernels or KERNELS}))
    return str(path)


def test_several_devices_are_summed_up_one_by_one(
    tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    path = _trace(tmp_path, KERNELS[0], _kernel("add", 132_000, 256, 1.0, device=1), gpus=(GPU, {**GPU, "id": 1}))
    devices = answered("occupancy-of", path)["devices"]
    assert [(device["device"], device["mean"]) for device in devices] == [(0, pytest.approx(1 / 16)), (1, 1)]
    assert "NVIDIA H100 80GB HBM3 (1)" in printed("occupancy-of", path)


def test_people_read_the_numbers_the_limits_and_advice(tmp_path: Path, printed: Callable[..., str]) -> None:
    out = re.sub(" {2,}", "  ", printed("occupancy-of", _trace(tmp_path)))
    for part in (
        "NVIDIA H100 80GB HBM3: 3 kernel launches",
        "launch-config occupancy  39.6 %  26.2 %  100.0 %",
        "limited by (share of GPU time): the grid (too few blocks) 80.0 %, warps (an SM holds no more) 20.0 %",
        "advice: grids are too small for 80 % of the GPU time: the busiest such kernel launches 66 blocks for 132 SMs, which"
        " leaves 66 idle, where 1056 fit at once; a larger batch makes more blocks",
        "skipped: 1 copies and fills of memory",
    ):
        assert part in out
    by_launch = printed("occupancy-of", _trace(tmp_path), "--by", "launch")
    assert "matmul <66x1x1 of 256x1x1, 32 registers, 0 bytes>" in by_launch


def _at(milliseconds: float, kernel: dict[str, Any], stream: int = 7) -> dict[str, Any]:
    args = {**kernel["args"], "stream": stream}
    return {**kernel, "ts": 88437691101.719 + 1e3 * milliseconds, "tid": stream, "args": args}


OVER_TIME = [
    _at(0, _kernel("matmul", 66, 256, 2000.0)),  # 1/16
    _at(1, _kernel("add", 132_000, 256, 2000.0), stream=20),  # full, next to it for half of its time
    _at(8, _kernel("matmul", 132, 256, 2000.0)),  # 1/8
]


def test_over_time_kernels_of_cuda_graphs_count_as_running(
    tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    path = _trace(tmp_path, *OVER_TIME, _at(4, _kernel("graph", 0, 0, 1000.0)))
    answer = answered("occupancy-of", path)
    assert answer["span_s"] == pytest.approx(10e-3, rel=1e-5)
    assert (answer["utilisation"], answer["unknown_of_the_span"]) == pytest.approx((0.6, 0.1), rel=1e-4)
    assert answer["occupancy_of_the_span"] == pytest.approx((1 / 16 + 2 + 2 / 8) / 9, rel=1e-4)
    assert answer["busy_occupancy"] == pytest.approx((1 / 16 + 2 + 2 / 8) / 5, rel=1e-4)
    out = printed("occupancy-of", path)
    assert "a kernel ran 60.0 % of 10.0 ms: NVML utilisation; warp slots were 25.7 % full on average" in out
    assert "for 10.0 % of the time only kernels of unknown occupancy ran" in out


def test_over_time_each_gpu_is_told_and_the_mean(
    tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    other = _at(5, _kernel("add", 132_000, 256, 1000.0, device=1))
    path = _trace(tmp_path, *OVER_TIME, other, gpus=(GPU, {**GPU, "id": 1}))
    answer = answered("occupancy-of", path)
    assert [device["utilisation"] for device in answer["devices"]] == pytest.approx([0.5, 0.1], rel=1e-4)
    assert answer["utilisation"] == pytest.approx(0.3, rel=1e-4)
    assert answer["occupancy_of_the_span"] == pytest.approx((0.23125 + 0.1) / 2, rel=1e-4)
    picture = tmp_path / "time.svg"
    drawn = printed("occupancy-of", path, "--timeline", picture)
    assert "NVML utilisation (mean over 2 GPUs)" in drawn
    text = picture.read_text()
    assert "NVIDIA H100 80GB HBM3 (1), 10.0 ms: NVML utilisation 10.0 %, occupancy 10.0 %" in text
    assert "GPU occupancy (by launch configuration)" in text and "time since the first kernel or reading, ms" in text


def test_a_gpu_of_ones_own(tmp_path: Path, answered: Callable[..., Any]) -> None:
    (tmp_path / "mine.toml").write_text(MY_GPU)
    mine = answered("occupancy-of", _trace(tmp_path, KERNELS[0]), "--gpu", "my gpu", "--gpus", tmp_path / "mine.toml")
    assert (mine["gpu"], mine["mean"]) == ("My GPU", pytest.approx(66 / 100 * 8 / 48))


def test_achieved_occupancy_of_ncu_stands_beside_ours(
    tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    (tmp_path / "ncu.csv").write_text(
        '"ID","Kernel Name","Block Size","Grid Size","Device","CC","sm__warps_active.avg.pct_of_peak_sustained_active",'
        '"launch__registers_per_thread","launch__shared_mem_per_block_static","launch__shared_mem_per_block_dynamic"\n'
        '"","","","","","","%","register/thread","byte/block","byte/block"\n'
        '"0","matmul","(256, 1, 1)","(66, 1, 1)","0","9.0","11.0","32","0","0"\n'
    )
    arguments = ("occupancy-of", tmp_path / "ncu.csv", "--gpu", "H100 SXM5")
    answer = answered(*arguments)
    assert answer["achieved"]["mean"] == pytest.approx(0.11)
    assert (answer["mean"], answer["active"]["mean"]) == (pytest.approx(1 / 16), pytest.approx(1 / 8))
    unknown = ("time_mean", "seconds", "span_s", "utilisation", "occupancy_of_the_span")
    assert [answer[name] for name in unknown] == [None] * 5 and answer["limiters"] == {}
    out = printed(*arguments)
    assert "achieved occupancy, measured by ncu  11.0 %" in out
    assert "nan" not in out


def test_a_picture(tmp_path: Path, printed: Callable[..., str]) -> None:
    printed("occupancy-of", _trace(tmp_path), "--plot", tmp_path / "kernels.svg")
    text = (tmp_path / "kernels.svg").read_text()
    for part in ("matmul", "mean over launches: 39.6 %", "weighted by time: 26.2 %", "80.0 % of time; grid"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("missing.json", "no such profile"),
        ("trace.json --gpu V100", "ambiguous"),
        ("trace.json --gpus missing.toml", "cannot read the GPU file"),
        ("trace.json --plot picture.bmp", "name a file that ends in"),
        ("trace.json --top 0", "--top"),
        ("timeless.json --timeline time.png", "'timeless.json' does not record when its kernels ran"),
        ("trace.json --timeline time.bmp", "name a file that ends in"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str], arguments: str, says: str
) -> None:
    Path(_trace(tmp_path, {**KERNELS[0], "ts": None})).rename(tmp_path / "timeless.json")
    _trace(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert says in refused("occupancy-of", *arguments.split())
