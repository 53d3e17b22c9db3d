"""``epochcast simulate-packing`` from the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
a,0,10,0.3,0.5,1e9
b,0,20,0.4,0.4,2e9
c,0,5,0.2,0.9,3e9
"""


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "jobs.csv").write_text(JOBS)
    return str(tmp_path / "jobs.csv")


@pytest.fixture
def trainings(tmp_path: Path) -> str:
    """Twenty on a T4, and one that crashed."""
    rng = np.random.default_rng(0)
    rows = {
        "network": [f"net{number}" for number in range(21)],
        "batch": 16,
        "gpu": "T4",
        "sm_occupancy": rng.uniform(0.1, 0.6, 21),
        "gpu_utilization_percent": rng.uniform(20, 70, 21),
        "peak_memory_mib": 1024,
        "status": [*["SUCCESSFUL"] * 20, "OOM_CRASH"],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "trainings.csv", index=False)
    return str(tmp_path / "trainings.csv")


@pytest.fixture
def answer(answered: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: answered("simulate-packing", *arguments)


def makespans(found: Any) -> dict[tuple[str, str], float]:
    return {(one["slowdown"], one["policy"]): one["figures"]["makespan"]["mean"] for one in found["results"]}


def test_memory_of_a_gpu_by_name(answer: Callable[..., Any], jobs: str, trainings: str) -> None:
    assert answer("--jobs", jobs, "--gpu", "P40")["memory"] == 24 * 2**30
    assert answer("--jobs", jobs, "--gpu", "P40", "--memory", "48e9")["memory"] == 48e9
    found = answer("--configurations", trainings, "--runs", "1", "--slowdown", "none")
    assert found["memory"] == 16 * 2**30
    assert found["drawn_from"] == {"configurations": 20, "gpu": "T4", "left_out": {"not_measured": 1, "too_large": 0}}


def test_streams_are_those_of_the_options(answer: Callable[..., Any], trainings: str) -> None:
    arguments = ("--configurations", trainings, "--slowdown", "fig7", "--runs", "3")
    found = answer(*arguments)
    assert (found["runs"], found["jobs"]) == (3, 40)
    assert makespans(found) == makespans(answer(*arguments, "--seed", "0")) != makespans(answer(*arguments, "--seed", "1"))
    # 39 gaps of 12 s / (4 GPUs x 0.01) = 300 s, and hardly two jobs at once
    light = {one["policy"]: one["figures"] for one in answer(*arguments, "--runs", "20", "--load", "0.01")["results"]}
    assert light["slot"]["makespan"]["mean"] == pytest.approx(11700, rel=0.2)
    assert light["slot"]["jct_slowdown"]["mean"] == pytest.approx(1, abs=0.02)


def test_configurations_too_large_for_a_gpu_are_left_out(
    answer: Callable[..., Any], refused: Callable[..., str], trainings: str
) -> None:
    with Path(trainings).open("a") as file:
        file.write("huge,16,T4,0.5,50,30000,SUCCESSFUL\n")
    arguments = ("--configurations", trainings, "--runs", "1", "--slowdown", "none")
    drawn_from = answer(*arguments)["drawn_from"]
    assert (drawn_from["configurations"], drawn_from["left_out"]["too_large"]) == (20, 1)
    said = refused("simulate-packing", *arguments, "--memory", "1e6")
    assert "every configuration needs 1.074e+09 bytes or more; give larger GPUs" in said


def test_the_answer_in_words(printed: Callable[..., str], jobs: str, trainings: str) -> None:
    drawn = ("--configurations", trainings, "--runs", "4")
    out = printed("simulate-packing", *drawn)
    assert out.startswith("40 jobs on 4 GPUs of 16 GiB, means of 4 runs")
    assert "\ndrawn from 20 configurations measured on T4 (1 left out: crashed, not measured, or too large)\n" in out
    assert out.count("the paper's order of makespans") == 3
    once = printed("simulate-packing", "--jobs", jobs, "--memory", "16e9", "--gpus-total", "1")
    assert "the paper's order of makespans (occu < nvml-util < slot) holds; occu's NVML utilisation is not the highest" in once
    assert "drawn from" not in once


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give exactly one of --jobs CSV and --configurations CSV"),
        ("--jobs JOBS --configurations JOBS", "give exactly one of --jobs CSV and --configurations CSV"),
        ("--jobs JOBS", "give --gpu NAME or --memory BYTES"),
        ("--gpu P40 --jobs JOBS --load 0.5", "--load applies to streams drawn from --configurations"),
        ("--gpu P40 --jobs JOBS --seed 1", "--seed applies to streams drawn from --configurations"),
    ],
)
def test_one_sentence_and_exit_2(refused: Callable[..., str], jobs: str, arguments: str, message: str) -> None:
    assert message in refused("simulate-packing", *arguments.replace("JOBS", jobs).split())
