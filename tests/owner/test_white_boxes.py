"""Predictions from the model itself: distributed-precision, ConvMeter and occupancy through one interface; packing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

A100 = "A100 SXM4 80GB"


def _distributed(answer: dict[str, Any], wider: dict[str, Any]) -> None:
    """GPT-2 small in FP16 on two A100, and in FP32."""
    assert answer["job"]["precision"] == "fp16" and answer["gpus"] == 2
    assert answer["low"] < answer["seconds"] < answer["high"] and 0.05 < answer["mfu"] < 0.9
    parts = answer["parts"]
    spent = sum(parts.pop("compute").values()) + sum(parts.values())
    assert spent == pytest.approx(answer["seconds"])
    assert parts["data_parallel"] > 0 and answer["tokens_per_second"] == pytest.approx(2 * 1024 / answer["seconds"])
    assert answer["memory"]["gradients"] == pytest.approx(2 * 124.4e6, rel=0.01)  # two bytes for each parameter
    assert wider["memory"]["gradients"] == 2 * answer["memory"]["gradients"]
    assert 1.5 < wider["seconds"] / answer["seconds"] < 16  # the peaks are 312 and 19.5 TFLOP/s


def _convmeter(answer: dict[str, Any], wider: dict[str, Any]) -> None:
    """ResNet-50 on the machine that was measured, at batch 2, and at batch 8."""
    assert (answer["metrics"]["weights"], answer["metrics"]["layers"]) == (25557032, 54)
    assert answer["metrics"]["flops"] == pytest.approx(2 * 4.09e9, rel=0.01)
    (one,), (four) = answer["predictions"], wider["predictions"][0]
    phases = one["phases"]
    assert phases["inference"]["value"] < phases["backward"]["value"] < phases["step"]["value"]
    assert all(phase["low"] <= phase["value"] <= phase["high"] for phase in phases.values())
    assert 2 < four["phases"]["inference"]["value"] / phases["inference"]["value"] < 4.5


def _occupancy(answer: dict[str, Any], wider: dict[str, Any]) -> None:
    """AlexNet on the GPU that was measured, at batch 16, and at batch 64."""
    (small,), (large,) = (each["predictions"] for each in (answer, wider))
    for name, least in (("sm_occupancy", 0.0), ("sm_active", 0.0), ("peak_memory", 1e8)):
        result = small[name]
        assert least < result["low"] <= result["value"] <= result["high"], name
    assert small["sm_active"]["high"] <= 1 and large["sm_occupancy"]["value"] < 1
    assert small["peak_memory"]["value"] < large["peak_memory"]["value"] < 16 * 2**30
    assert small["sm_occupancy"]["basis"] == "measured"


# The question over HTTP and in words, what would be wider, and what must be true of both answers.
QUESTIONS: dict[str, tuple[dict[str, Any], str, dict[str, Any], Callable[..., None]]] = {
    "distributed": (
        {"model": "GPT-2-small", "gpu": A100, "dp": 2, "precision": "fp16", "zero": 0},
        f"--model|GPT-2-small|--gpu|{A100}|--dp|2|--precision|fp16|--zero|0",
        {"precision": "fp32"},
        _distributed,
    ),
    "convmeter": (
        {"network": "resnet50", "model": "cpu", "batches": [2]},
        "--network|resnet50|--model|MODEL|--batch|2",
        {"batches": [8]},
        _convmeter,
    ),
    "occupancy": (
        {"network": "alexnet", "gpus": ["A100 SXM4 40GB"], "batches": [16]},
        "--network|alexnet|--gpu|A100 SXM4 40GB|--batch|16",
        {"batches": [64]},
        _occupancy,
    ),
}


@pytest.mark.parametrize("backend", QUESTIONS)
def test_one_interface_answers_by_command_and_by_http(
    backend: str, answer: Callable[..., Any], epochcast: Any, service: Any, post: Any, until: Any, root: Path, tmp_path: Path
) -> None:
    question, words, change, holds = QUESTIONS[backend]
    settings = ""
    if backend == "convmeter":  # fitted on this repository's own measurements
        points = pd.read_csv(root / "data" / "convmeter_cpu" / "points.csv.gz")
        points[points["family"].isin(["resnet", "mnasnet"])].to_csv(tmp_path / "points.csv", index=False)
        epochcast("fit", "convmeter", "--data", tmp_path / "points.csv", "--out", tmp_path / "model")
        settings = f'[backends.convmeter.models]\ncpu = "{tmp_path / "model"}"\n'
    else:
        pytest.importorskip("torch")
    running = service(settings)
    result = answer("predict-model", backend, *words.replace("MODEL", str(tmp_path / "model")).split("|"))
    until(lambda: running.answers("/healthz"))
    asked = f"{running.url}/api/v1/backends/{backend}"
    assert post(asked, json.dumps(question).encode()) == result
    holds(result, post(asked, json.dumps(question | change).encode()))


JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
a,0,10,0.3,0.5,1e9
b,0,20,0.4,0.4,2e9
c,0,5,0.2,0.9,3e9
"""


def test_jobs_are_packed_by_their_occupancy(answer: Callable[..., Any], tmp_path: Path) -> None:
    """One GPU: in turn 35 s; all at once 20 s where sharing costs nothing; a and b alone stay within 100 % of NVML."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    result = answer(
        *("simulate-packing", "--jobs", tmp_path / "jobs.csv", "--memory", "16e9", "--gpus-total", "1", "--slowdown", "none")
    )
    assert (result["runs"], result["jobs"], result["drawn_from"]) == (1, 3, {})
    assert result["ordering"]["none"] == {"makespan": True, "utilisation": False, "makespan_runs": 1, "utilisation_runs": 0}
    figures = {one["policy"]: one["figures"] for one in result["results"]}
    assert {policy: one["makespan"]["mean"] for policy, one in figures.items()} == {"slot": 35, "nvml-util": 25, "occu": 20}
    assert {policy: one["nvml_utilisation"]["mean"] for policy, one in figures.items()} == pytest.approx(
        {"slot": 17.5 / 35, "nvml-util": 17.5 / 25, "occu": 13.5 / 20}  # three fill 5 s of 9
    )
