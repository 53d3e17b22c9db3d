"""``python -m lab.kernels``: profiles of kernels."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GPU = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def _kernel(name: str, blocks: int, start_ms: float, milliseconds: float) -> dict[str, Any]:
    launch = {"device": 0, "stream": 7, "grid": [blocks, 1, 1], "block": [256, 1, 1], "shared memory": 0}
    args = {**launch, "registers per thread": 32}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1e3 * start_ms, "dur": 1e3 * milliseconds, "args": args}


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A trace of PyTorch's profiler: two kernels and a copy."""
    events = [
        _kernel("matmul", 66, 0, 2),  # 66 / 132 blocks of 8 warps of 64: 1/16
        _kernel("add", 132_000, 8, 2),  # full
        {"cat": "gpu_memcpy", "name": "Memcpy", "dur": 5, "args": {"device": 0}},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [GPU], "traceEvents": events}))
    return path


def test_a_profile_of_pytorch(profile: Path, lab: Callable[..., str], lab_answer: Callable[..., Any]) -> None:
    answer = lab_answer("kernels", profile)
    assert (answer["launches"], answer["mean"]) == (2, pytest.approx((1 / 16 + 1) / 2))
    assert (answer["utilisation"], answer["span_s"]) == pytest.approx((0.4, 10e-3), rel=1e-4)
    assert answer["skipped"] == {"memory_copy": 1}
    drawn = lab("kernels", profile, "--plot", profile.with_name("a.svg"), "--timeline", profile.with_name("b.svg"))
    assert "matmul" in drawn and "utilisation: 0.4" in drawn
    assert "utilisation 40.0 %" in profile.with_name("b.svg").read_text()


def test_our_table_of_an_h200(root: Path, lab_answer: Callable[..., Any]) -> None:
    answer = lab_answer("kernels", root / "data/h200/occupancy_bench/kernels.csv.gz")
    assert len(answer["workloads"]) == 18
    assert 0 < answer["mean"] < answer["max"] <= 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cannot read"),
        (b"a,b\n1,2\n", "is no profile"),
        (b"\x1f\x8bno gzip", "cannot read"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, lab: Callable[..., str], content: bytes, says: str) -> None:
    (tmp_path / "trace.json").write_bytes(content)
    assert says in lab("kernels", tmp_path / "trace.json", status=2)
