"""``epochcast simulate-packing`` from the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_occupancies import made_points

from epochcast.analyzer.cli import main

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
def table(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = {
        "key": [f"net{number}" for number in range(20)],
        "occupancy": rng.uniform(0.1, 0.6, 20),
        "nvml_utilisation": rng.uniform(0.2, 0.7, 20),
        "memory_bytes": 1e9,
    }
    pd.DataFrame(rows).to_csv(tmp_path / "configurations.csv", index=False)
    return str(tmp_path / "configurations.csv")


@pytest.fixture
def answer(answered: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: answered("simulate-packing", *arguments)


def test_memory_of_a_gpu_by_name(answer: Callable[..., Any], jobs: str) -> None:
    assert answer("--jobs", jobs, "--gpu", "P40")["memory"] == 24 * 2**30
    assert answer("--jobs", jobs, "--gpu", "P40", "--memory", "48e9")["memory"] == 48e9


def test_configurations_too_large_for_a_gpu_are_left_out(
    answer: Callable[..., Any], refused: Callable[..., str], table: str
) -> None:
    with Path(table).open("a") as file:
        file.write("huge,0.5,0.5,30e9\n")
    arguments = ("--configurations", table, "--runs", "1", "--slowdown", "none")
    drawn_from = answer(*arguments, "--gpu", "P40")["drawn_from"]
    assert (drawn_from["configurations"], drawn_from["left_out"]["too_large"]) == (20, 1)
    said = refused("simulate-packing", *arguments, "--memory", "1e6")
    assert "every configuration needs 1e+09 bytes or more and a GPU has 1e+06" in said


def test_errors_of_a_table_of_jobs_are_drawn(answer: Callable[..., Any], jobs: str) -> None:
    arguments = ("--jobs", jobs, "--memory", "16e9", "--gpus-total", "1", "--slowdown", "fig7", "--runs", "20")
    assert answer(*arguments)["runs"] == 1
    wrong = answer(*arguments, "--error", "1")
    spread = {one["policy"]: one["figures"]["makespan"]["sd"] for one in wrong["results"]}
    assert wrong["runs"] == 20
    assert spread["slot"] == pytest.approx(0)
    assert spread["occu"] > 0


def test_text_and_picture(printed: Callable[..., str], table: str, tmp_path: Path) -> None:
    plot = tmp_path / "packing.png"
    drawn = ("--configurations", table, "--gpu", "P40", "--runs", "4", "--stream-jobs", "8")
    out = printed("simulate-packing", *drawn, "--plot", plot)
    assert out.startswith("8 jobs on 4 GPUs of 24 GiB, means of 4 runs")
    assert out.count("the paper's order of makespans") == 3
    assert plot.read_bytes()[:4] == b"\x89PNG"


@pytest.fixture
def colocation(tmp_path: Path) -> str:
    """Twelve pairs that took turns."""
    sides = {"rate_slowdown": 2.0, "mean_grid": np.linspace(5, 50, 12), "nvml_util_alone": 90.0}
    pairs = pd.DataFrame({f"{name}_{side}": value for side in "ab" for name, value in sides.items()})
    pairs.assign(key_a="x", key_b="y", status="ok").to_csv(tmp_path / "colocation.csv", index=False)
    return str(tmp_path / "colocation.csv")


def test_measured_slowdown(answer: Callable[..., Any], jobs: str, colocation: str) -> None:
    told = answer("--jobs", jobs, "--memory", "16e9", "--gpus-total", "1", "--colocation", colocation)
    makespan = {(one["slowdown"], one["policy"]): one["figures"]["makespan"]["mean"] for one in told["results"]}
    assert makespan["measured", "occu"] == pytest.approx(35)  # taking turns gains nothing


@pytest.mark.parametrize(("weighted", "notes"), [("mean", 0), ("time_mean", 1)])
def test_slowdowns_measured_by_another_occupancy_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, colocation: str, weighted: str, notes: int
) -> None:
    made_points(["lenet", "resnet18"]).to_csv(tmp_path / "points.csv", index=False)
    drawn = ["--configurations", str(tmp_path / "points.csv"), "--runs", "1", "--stream-jobs", "4", "--occupancy", weighted]
    assert main(["simulate-packing", *drawn, "--slowdown", "measured", "--colocation", colocation]) == 0
    assert capsys.readouterr().err.count("they are not the same quantity") == notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give either --jobs CSV or --configurations CSV"),
        ("--jobs JOBS", "give --gpu NAME or --memory BYTES"),
        ("--gpu P40 --jobs JOBS --slowdown measured", "needs measured pairs"),
        ("--gpu P40 --jobs JOBS --slowdown none --colocation x.csv", "--colocation is not used by"),
        ("--gpu P40 --jobs JOBS --plot picture.txt", "cannot draw to 'picture.txt'"),
        ("--gpu P40 --jobs JOBS --load 0.5", "--load is about streams drawn from --configurations"),
        ("--gpu P40 --jobs JOBS --labels ncu", "--labels is about streams drawn from --configurations"),
    ],
)
def test_one_sentence_and_exit_2(refused: Callable[..., str], jobs: str, arguments: str, message: str) -> None:
    assert message in refused("simulate-packing", *arguments.replace("JOBS", jobs).split())
