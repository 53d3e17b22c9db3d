"""``epochcast simulate-packing`` from the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_occupancies import made_points

from epochcast.analyzer.cli import main

Capture = pytest.CaptureFixture[str]

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


def answer(capsys: Capture, *arguments: str) -> dict:
    assert main(["simulate-packing", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_three_jobs_by_hand(capsys: Capture, jobs: str) -> None:
    """On one GPU slots take 35 s. By occupancy all fit (90 %); by NVML utilisation c does not fit beside a and b (180 %)."""
    told = answer(capsys, "--jobs", jobs, "--memory", "16e9", "--gpus-total", "1", "--slowdown", "none")
    makespan = {one["policy"]: one["figures"]["makespan"]["mean"] for one in told["results"]}
    assert makespan == {"slot": 35, "nvml-util": 25, "occu": 20}
    assert (told["runs"], told["jobs"], told["gpus"], told["memory"]) == (1, 3, 1, 16e9)
    assert told["ordering"]["none"]["makespan"] is True
    assert told["results"][0]["figures"]["makespan"]["sd"] is None
    assert told["results"][2]["makespan_gain"] == pytest.approx(1 - 20 / 35)


def test_memory_of_a_gpu_by_name(capsys: Capture, jobs: str) -> None:
    assert answer(capsys, "--jobs", jobs, "--gpu", "P40")["memory"] == 24 * 2**30
    assert answer(capsys, "--jobs", jobs, "--gpu", "P40", "--memory", "48e9")["memory"] == 48e9


def test_configurations_too_large_for_a_gpu_are_left_out(capsys: Capture, table: str) -> None:
    with Path(table).open("a") as file:
        file.write("huge,0.5,0.5,30e9\n")
    arguments = ("--configurations", table, "--runs", "1", "--slowdown", "none")
    told = answer(capsys, *arguments, "--gpu", "P40")
    assert told["drawn_from"]["configurations"] == 20
    assert told["drawn_from"]["left_out"]["too_large"] == 1
    assert main(["simulate-packing", *arguments, "--memory", "1e6"]) == 2
    assert "every configuration needs 1e+09 bytes or more and a GPU has 1e+06" in capsys.readouterr().err


def test_streams_are_the_same_for_the_same_seed(capsys: Capture, table: str) -> None:
    arguments = ("--configurations", table, "--gpu", "P40", "--runs", "3", "--stream-jobs", "8", "--error", "0.5")
    first, again = answer(capsys, *arguments), answer(capsys, *arguments)
    assert first == again
    assert first != answer(capsys, *arguments, "--seed", "1")
    assert {one["slowdown"] for one in first["results"]} == {"none", "fig7", "utilisation"}
    assert {one["policy"] for one in first["results"]} == {"slot", "nvml-util", "occu"}


def test_poisson_arrivals_at_low_load_do_not_wait(capsys: Capture, table: str) -> None:
    arguments = ("--configurations", table, "--gpu", "P40", "--runs", "5", "--stream-jobs", "10", "--slowdown", "none")
    at_once, idle = (answer(capsys, *arguments, *load)["results"][0] for load in ((), ("--load", "0.05")))
    assert idle["figures"]["queueing"]["mean"] < 0.1 * at_once["figures"]["queueing"]["mean"]


def test_errors_of_a_table_of_jobs_are_drawn(capsys: Capture, jobs: str) -> None:
    arguments = ("--jobs", jobs, "--memory", "16e9", "--gpus-total", "1", "--slowdown", "fig7", "--runs", "20")
    assert answer(capsys, *arguments)["runs"] == 1
    wrong = answer(capsys, *arguments, "--error", "1")
    spread = {one["policy"]: one["figures"]["makespan"]["sd"] for one in wrong["results"]}
    assert wrong["runs"] == 20
    assert spread["slot"] == pytest.approx(0)
    assert spread["occu"] > 0


def test_text_and_picture(capsys: Capture, table: str, tmp_path: Path) -> None:
    plot = tmp_path / "packing.png"
    arguments = ["--configurations", table, "--gpu", "P40", "--runs", "4", "--stream-jobs", "8", "--plot", str(plot)]
    assert main(["simulate-packing", *arguments]) == 0
    out = capsys.readouterr().out
    assert out.startswith("8 jobs on 4 GPUs of 24 GiB, means of 4 runs")
    assert out.count("the paper's order of makespans") == 3
    assert plot.read_bytes()[:4] == b"\x89PNG"


@pytest.fixture
def colocation(tmp_path: Path) -> str:
    """Twelve pairs that took turns."""
    pairs = pd.DataFrame(
        {
            "key_a": "x",
            "key_b": "y",
            "status": "ok",
            "rate_slowdown_a": 2.0,
            "rate_slowdown_b": 2.0,
            "mean_grid_a": np.linspace(5, 50, 12),
            "mean_grid_b": 30.0,
            "nvml_util_alone_a": 90.0,
            "nvml_util_alone_b": 90.0,
        }
    )
    pairs.to_csv(tmp_path / "colocation.csv", index=False)
    return str(tmp_path / "colocation.csv")


def test_measured_slowdown(capsys: Capture, jobs: str, colocation: str) -> None:
    told = answer(capsys, "--jobs", jobs, "--memory", "16e9", "--gpus-total", "1", "--colocation", colocation)
    makespan = {(one["slowdown"], one["policy"]): one["figures"]["makespan"]["mean"] for one in told["results"]}
    assert makespan["measured", "occu"] == pytest.approx(35)  # taking turns gains nothing


@pytest.mark.parametrize(("weighted", "notes"), [("mean", 0), ("time_mean", 1)])
def test_slowdowns_measured_by_another_occupancy_are_told(
    capsys: Capture, tmp_path: Path, colocation: str, weighted: str, notes: int
) -> None:
    made_points(["lenet", "resnet18"]).to_csv(tmp_path / "points.csv", index=False)
    drawn = ["--configurations", str(tmp_path / "points.csv"), "--runs", "1", "--stream-jobs", "4", "--occupancy", weighted]
    assert main(["simulate-packing", *drawn, "--slowdown", "measured", "--colocation", colocation]) == 0
    assert capsys.readouterr().err.count("they are not the same quantity") == notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --jobs CSV or --configurations CSV"),
        (["--jobs", "{jobs}"], "give --gpu NAME or --memory BYTES"),
        (["--gpu", "P40"], "give either --jobs CSV or --configurations CSV"),
        (["--gpu", "P40", "--configurations", "{jobs}"], "which are those of no known table of occupancies"),
        (["--gpu", "P40", "--jobs", "none.csv"], "there is no file 'none.csv'"),
        (["--memory", "1e9", "--jobs", "{jobs}"], "job 'c' needs 3e+09 bytes and a GPU has 1e+09"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--slowdown", "measured"], "needs measured pairs"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--slowdown", "none", "--colocation", "x.csv"], "--colocation is not used by"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--plot", "picture.txt"], "cannot draw to 'picture.txt'"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--load", "0.5"], "--load is about streams drawn from --configurations"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--labels", "ncu"], "--labels is about streams drawn from --configurations"),
        (["--gpu", "no such", "--jobs", "{jobs}"], "unknown GPU 'no such'"),
        (["--gpu", "P40", "--jobs", "{jobs}", "--policy", "best"], "'best' is not one of"),
    ],
)
def test_one_sentence_and_exit_2(capsys: Capture, jobs: str, arguments: list[str], message: str) -> None:
    assert main(["simulate-packing", *(argument.format(jobs=jobs) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
