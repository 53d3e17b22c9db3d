"""``epochcast profile`` and ``epochcast predict`` as a user meets them: several GPUs, whole jobs, energy, own GPUs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.traces.trace import read_trace, write_trace
from epochcast.regressor.profile_json import profile_json, read_profile

from ...my_gpu import MY_GPU

Answer = Callable[..., dict[str, Any]]
Text = Callable[..., str]

OF_BATCH = "assumed: the batch stays the same"
OF_TYPE = "the type of the job is not known, so the answers are the mean over types; state it"
OF_TENSOR_CORES = "the job computes in mixed precision: tensor_active is 0.20, and on the T4 only 16 bits use tensor cores"


@pytest.fixture(scope="module")
def save(profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Write the profile of the job with other values; its path."""
    folder = tmp_path_factory.mktemp("changed")
    whole = read_profile(json.loads(profile.read_text()))

    def write(name: str, **changes: Any) -> str:
        (folder / f"{name}.json").write_text(json.dumps(profile_json(replace(whole, **changes))))
        return str(folder / f"{name}.json")

    return write


@pytest.fixture(scope="module")
def stalled(save: Callable[..., str]) -> str:
    return save("stalled", stalls=2, stall_s=22.0)


NEITHER: dict[str, Any] = dict.fromkeys(("epoch_s", "unit", "epoch_s_low", "epoch_s_high", "first_epoch_s")) | {"epochs": 0}


@pytest.fixture(scope="module")
def neither(save: Callable[..., str]) -> str:
    """Of neither epochs nor steps."""
    return save("neither", **NEITHER)


def test_a_profile_predicts_the_same(run: Path, tmp_path: Path, answer: Answer, text: Text) -> None:
    out = tmp_path / "run.json"
    out.write_text(text("profile", run, "--workload", "net|64", "--group", "net"))
    profile = read_profile(json.loads(out.read_text()))
    assert (profile.workload, profile.group, profile.gpu, profile.simulated) == ("net|64", "net", "T4", True)
    assert answer("predict", out)["predictions"] == answer("predict", run)["predictions"]


def test_what_was_left_out_is_said(stalled: str, answer: Answer, text: Text) -> None:
    found = answer("predict", stalled, "--target", "A10G")
    assert found["notes"] == [OF_TENSOR_CORES, OF_TYPE, OF_BATCH]
    assert [gpu["predictions"] for gpu in found["gpus"]] == [[]], "those of its one GPU are those of the job"
    printed = text("predict", stalled, "--target", "A10G")
    assert "median of 9; left out: the first epoch (" in printed
    assert "and 2 stalls (22.0 s in all)\nused: gpu_utilization, " in printed
    assert found["predictions"][0]["why"] in printed and "used gpu_utilization" in printed


def joules(prediction: dict[str, Any]) -> float:
    value: float = prediction["energy"]["joules"]["value"]
    return value


def test_a_job_is_as_slow_as_its_slowest_gpu(profile: Path, save: Callable[..., str], answer: Answer, text: Text) -> None:
    whole = read_profile(json.loads(profile.read_text()))
    busy = whole.metrics["gpu_utilization"]
    busier = {**whole.metrics, "gpu_utilization": {**busy, **dict.fromkeys(("mean", "p50", "p75"), busy["max"])}}
    paths = [str(profile), save("busier", epoch_s=(whole.epoch_s or 0) * 1.005, metrics=busier)]
    job = answer("predict", *paths)
    alone = [answer("predict", path) for path in paths]
    assert [gpu["name"] for gpu in job["gpus"]] == paths
    lengths = [one["gpus"][0]["profile"]["epoch_s"] for one in alone]
    assert job["gpus"][job["slowest"]]["profile"]["epoch_s"] == max(lengths)
    assert len(job["predictions"]) == len(alone[0]["predictions"]) > 20
    for prediction in job["predictions"]:
        each = [next(p for p in gpu["predictions"] if p["gpu"] == prediction["gpu"]) for gpu in alone]
        seconds = [p["seconds"] for p in each]
        assert prediction["seconds"] == pytest.approx(max(seconds), rel=0.05)  # two GPUs scale a little otherwise than one
        assert prediction["slowest"] == seconds.index(max(seconds))
        assert prediction["spread"] == pytest.approx(max(seconds) / min(seconds) - 1, abs=0.1)
        assert joules(prediction) == pytest.approx(sum(map(joules, each)), rel=0.05)
    assert [p["seconds"] for p in job["predictions"]] == sorted(p["seconds"] for p in job["predictions"])
    printed = text("predict", *paths, "--target", "A10G")
    assert f"GPU 1, {paths[1]}: from T4 (simulated)" in printed and "spread" in printed


def test_gpus_that_cannot_be_of_one_job_are_doubted(
    profile: Path, neither: str, save: Callable[..., str], answer: Answer, refusal: Text
) -> None:
    longer = save("longer", epoch_s=20.0, epoch_s_low=None, epoch_s_high=None)
    other = save("v100", gpu="V100 SXM2 16GB")
    assert any("is it one job?" in note for note in answer("predict", profile, longer)["notes"])
    assert any("different GPUs in one job (T4, V100" in note for note in answer("predict", profile, other)["notes"])
    assert answer("predict", profile, neither, "--target", "A10G")["notes"] == [
        f"{neither} not counted: no epochs found",
        OF_TENSOR_CORES,
        OF_TYPE,
        OF_BATCH,
    ]
    other = save("neither.v100", **NEITHER, gpu="V100 SXM2 16GB")
    assert "ratios to different GPUs cannot be compared" in refusal("predict", neither, other)


def test_steps_and_ratios_alone(save: Callable[..., str], neither: str, answer: Answer, text: Text, refusal: Text) -> None:
    steps = save("steps", unit="step", epochs=0, first_epoch_s=None)
    (row,) = answer("predict", steps, "--target", "A10G", "--epochs", "1000")["predictions"]
    assert row["job"]["seconds"]["value"] == pytest.approx(1000 * row["seconds"])
    (row,) = answer("predict", neither, "--target", "A10G")["predictions"]
    assert row["seconds"] is None and row["energy"]["joules"] is None and row["energy"]["watts"]["value"] > 0
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    printed = text("predict", neither, "--target", "A10G")
    assert "no epochs found, so ratios only" in printed
    assert f"{row['ratio_low']:.2f}x to {row['ratio_high']:.2f}x" in printed
    for command in ("predict", "recommend"):
        assert "there are only ratios" in refusal(command, neither, "--epochs", "3")


def test_a_whole_job_with_its_energy(stalled: str, answer: Answer, text: Text) -> None:
    found = answer("predict", stalled, "--target", "H100 SXM5", "--target", "T4", "--epochs", "90")
    for prediction in found["predictions"]:
        job = prediction["job"]
        first = found["gpus"][0]["profile"]["first_epoch_s"] * prediction["ratio"]
        assert job["first_epoch_s"] == pytest.approx(first) and job["stall_s"] == pytest.approx(89 * 22 / 11)
        seconds = job["seconds"]
        assert seconds["value"] == pytest.approx(first + 89 * prediction["seconds"] + 89 * 2)
        assert seconds["low"] < seconds["value"] < seconds["high"]
        assert prediction["job_joules"]["value"] == pytest.approx(seconds["value"] * prediction["energy"]["watts"]["value"])
    printed = text("predict", stalled, "--target", "H100 SXM5", "--epochs", "90")
    assert "job: 90 epochs, the first in proportion to the source's; 178 s of stalls" in printed
    assert "epochcast: power sensors of A100 and H100 sample about a quarter of the time" in printed
    assert any("a quarter of the time" in note for note in found["notes"])
    assert "power sensors" not in text("predict", stalled, "--target", "A10G")
    jobs = {row["gpu"]: row["job"]["seconds"]["value"] for row in answer("predict", stalled, "--epochs", "90")["predictions"]}
    rows = answer("recommend", stalled, "--epochs", "90")["recommendation"]["placements"]
    assert rows and all(row["seconds"]["value"] == pytest.approx(jobs[row["instance"]["gpu"]]) for row in rows)
    assert "178 s of stalls" in text("recommend", stalled, "--epochs", "90", "--all")


def test_a_gpu_of_ones_own(run: Path, profile: Path, tmp_path: Path, answer: Answer, refusal: Text) -> None:
    (tmp_path / "gpus.toml").write_text(MY_GPU)
    gpus = ("--gpus", tmp_path / "gpus.toml")
    (row,) = answer("predict", profile, *gpus, "--target", "my gpu")["predictions"]
    assert row["gpu"] == "My GPU" and row["ratio"] < 1
    for own in (run, profile):
        said = refusal("predict", own, *gpus, "--gpu", "My GPU", "--target", "T4")
        assert said.endswith("': recorded on T4, but the GPU that is given is My GPU; leave it out\n")
    unknown = write_trace(replace(read_trace(run), gpu="A name of my own"), tmp_path / "unknown.parquet")
    mine = answer("predict", unknown, *gpus, "--gpu", "My GPU", "--target", "T4")
    assert mine["gpus"][0]["profile"]["gpu"] == "My GPU" and mine["predictions"][0]["ratio"] > 0.8
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "cloud,instance,gpu,count,region,usd_per_hour,source,date\nmine,box,My GPU,1,attic,0.05,my bill,2026-11-01\n"
    )
    rows = answer("recommend", profile, *gpus, "--prices", prices)["recommendation"]["placements"]
    assert [row["instance"]["gpu"] for row in rows] == ["My GPU"]
