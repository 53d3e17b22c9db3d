"""``epochcast profile`` and ``epochcast predict`` as a user meets them: several GPUs, whole jobs, energy, own GPUs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from epochcast.analyzer.answers.sources import profile_of
from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace
from epochcast.detector.simulator import simulate
from epochcast.regressor import Profile, load_catalog

from ...my_gpu import MY_GPU

Capture = pytest.CaptureFixture[str]

STATIC: dict[str, Any] = {
    "compute_capability": "8.9",
    "sm_count": 58,
    "cuda_cores": 7424,
    "boost_clock": 2.04e9,
    "memory_total": 24152899584,
    "memory_bandwidth": 3.0e11,
    "power_limit": 72.0,
}
OF_BATCH = "assumed: the batch stays the same"
OF_TENSOR_CORES = "the job computes in mixed precision: tensor_active is 0.20, and on the T4 only 16 bits use tensor cores"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of one run; and profiles of two GPUs of one job, of other jobs, of steps, and of neither epochs nor steps."""
    folder = tmp_path_factory.mktemp("traces")
    made = simulate(seed=1, epochs=10, epoch_s=6.0)
    trace = Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu=made.gpu, source="replay", simulated=True)
    write_trace(trace, folder / "run.parquet")
    profile = profile_of(trace, load_catalog())[0]
    assert profile.epoch_s is not None and profile.epoch_s_low is not None and profile.epoch_s_high is not None
    busy = profile.metrics["gpu_utilization"]
    busier = {**profile.metrics, "gpu_utilization": {**busy, **dict.fromkeys(("mean", "p50", "p75"), busy["max"])}}
    none: dict[str, Any] = dict.fromkeys(("epoch_s", "unit", "epoch_s_low", "epoch_s_high", "first_epoch_s")) | {"epochs": 0}
    profiles = {
        "gpu0": profile,
        "gpu1": replace(profile, epoch_s=profile.epoch_s * 1.005, metrics=busier),
        "v100": replace(profile, gpu="V100 SXM2 16GB"),
        "longer": replace(profile, epoch_s=3 * profile.epoch_s, epoch_s_low=None, epoch_s_high=None),
        "stalled": replace(profile, stalls=2, stall_s=22.0),
        "steps": replace(profile, unit="step", epochs=0, first_epoch_s=None),
        "neither": replace(profile, **none),
        "neither.v100": replace(profile, **none, gpu="V100 SXM2 16GB"),
    }
    for name, each in profiles.items():
        (folder / f"{name}.json").write_text(json.dumps(each.to_json()))
    return folder


def _answer(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["predict", *arguments, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def _text(capsys: Capture, *arguments: str) -> str:
    assert main(["predict", *arguments]) == 0
    return "".join(capsys.readouterr())


def test_a_profile_is_written_whole_and_predicts_the_same(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    trace, out = str(folder / "run.parquet"), tmp_path / "run.json"
    assert main(["profile", trace, "--workload", "net|64", "--group", "net", "--out", str(out)]) == 0
    assert main(["profile", trace, "--workload", "net|64", "--group", "net"]) == 0
    printed = capsys.readouterr().out
    profile = Profile.from_json(json.loads(out.read_text()))
    assert (profile.workload, profile.group, profile.gpu, profile.simulated) == ("net|64", "net", "T4", True)
    assert printed == f"{out}\n{out.read_text()}"
    assert _answer(capsys, str(out))["predictions"] == _answer(capsys, trace)["predictions"]
    assert main(["profile", "--help"]) == 0 and "Example: epochcast profile" in capsys.readouterr().out


def test_what_was_left_out_is_said(folder: Path, capsys: Capture) -> None:
    path = str(folder / "stalled.json")
    answer = _answer(capsys, path, "--target", "A10G")
    assert answer["first_epoch_s"] > answer["epoch_s"] and answer["epochs"] == 9 and answer["stalls"] == 2
    assert answer["epoch_s_low"] < answer["epoch_s"] < answer["epoch_s_high"]
    assert answer["notes"] == [OF_TENSOR_CORES, OF_BATCH]
    assert [gpu["predictions"] for gpu in answer["gpus"]] == [[]], "those of its one GPU are those of the job"
    text = _text(capsys, path, "--target", "A10G")
    assert "median of 9; left out: the first epoch (" in text
    assert "and 2 stalls (22.0 s in all)\nused: gpu_utilization, " in text
    assert answer["predictions"][0]["why"] in text and "used gpu_utilization" in text


def test_a_job_is_as_slow_as_its_slowest_gpu(folder: Path, capsys: Capture) -> None:
    paths = [str(folder / f"gpu{number}.json") for number in (0, 1)]
    answer = _answer(capsys, *paths)
    alone = [_answer(capsys, path) for path in paths]
    assert [gpu["trace"] for gpu in answer["gpus"]] == paths
    assert answer["epoch_s"] == max(one["epoch_s"] for one in alone)
    assert len(answer["predictions"]) == len(alone[0]["predictions"]) > 20
    for prediction in answer["predictions"]:
        each = [next(p for p in one["predictions"] if p["gpu"] == prediction["gpu"]) for one in alone]
        seconds = [one["seconds"] for one in each]
        assert prediction["seconds"] == max(seconds)
        assert prediction["trace"] == paths[seconds.index(max(seconds))]
        assert prediction["spread"] == pytest.approx(max(seconds) / min(seconds) - 1)
        assert prediction["energy"]["joules"] == pytest.approx(sum(one["energy"]["joules"] for one in each))
    assert [p["seconds"] for p in answer["predictions"]] == sorted(p["seconds"] for p in answer["predictions"])
    text = _text(capsys, *paths, "--target", "A10G")
    assert f"GPU 1, {paths[1]}: from T4 (simulated)" in text and "spread" in text


def test_gpus_that_cannot_be_of_one_job_are_doubted(folder: Path, capsys: Capture) -> None:
    one, longer, v100, neither = (str(folder / f"{name}.json") for name in ("gpu0", "longer", "v100", "neither"))
    assert any("is it one job?" in note for note in _answer(capsys, one, longer)["notes"])
    assert any("different GPUs in one job (T4, V100" in note for note in _answer(capsys, one, v100)["notes"])
    notes = _answer(capsys, one, neither, "--target", "A10G")["notes"]
    assert notes == [
        f"{neither}: no epochs found, so it is not counted",
        OF_TENSOR_CORES,
        OF_BATCH.replace("batch", "batch on each GPU", 1),
    ]
    assert main(["predict", neither, str(folder / "neither.v100.json")]) == 2
    assert "ratios to different GPUs cannot be compared" in capsys.readouterr().err


def test_steps_and_ratios_alone(folder: Path, capsys: Capture) -> None:
    steps = _answer(capsys, str(folder / "steps.json"), "--target", "A10G", "--epochs", "1000")["predictions"][0]
    assert steps["job"]["seconds"] == pytest.approx(1000 * steps["seconds"])
    neither = str(folder / "neither.json")
    alone = _answer(capsys, neither, "--target", "A10G")["predictions"][0]
    assert alone["seconds"] is None and alone["energy"]["joules"] is None and alone["energy"]["watts"] > 0
    assert alone["ratio_low"] < alone["ratio"] < alone["ratio_high"]
    text = _text(capsys, neither, "--target", "A10G")
    assert "no epochs found, so ratios only" in text
    assert f"{alone['ratio_low']:.2f}x to {alone['ratio_high']:.2f}x" in text


def test_a_whole_job_with_its_energy(folder: Path, capsys: Capture) -> None:
    path = str(folder / "stalled.json")
    answer = _answer(capsys, path, "--target", "H100 SXM5", "--target", "T4", "--epochs", "90")
    for prediction in answer["predictions"]:
        job = prediction["job"]
        first = answer["first_epoch_s"] * prediction["ratio"]
        assert job["first_epoch_s"] == pytest.approx(first) and job["stall_s"] == pytest.approx(89 * 22 / 11)
        assert job["seconds"] == pytest.approx(first + 89 * prediction["seconds"] + 89 * 2)
        assert job["seconds_low"] < job["seconds"] < job["seconds_high"]
        assert job["joules"] == pytest.approx(job["seconds"] * prediction["energy"]["watts"])
    text = _text(capsys, path, "--target", "H100 SXM5", "--epochs", "90")
    assert "job: 90 epochs, the first one in proportion to the source's; 178 s of stalls" in text
    assert "epochcast: power sensors of A100 and H100 see about a quarter of the time" in text
    assert any("a quarter of the time" in note for note in answer["notes"])
    assert "power sensors" not in _text(capsys, path, "--target", "A10G")


def test_a_gpu_of_ones_own(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "gpus.toml").write_text(MY_GPU)
    profile = str(folder / "gpu0.json")
    answer = _answer(capsys, profile, "--gpus", str(tmp_path / "gpus.toml"), "--target", "my gpu")
    assert answer["predictions"][0]["gpu"] == "My GPU" and answer["predictions"][0]["ratio"] < 1
    trace = str(folder / "run.parquet")
    mine = _answer(capsys, trace, "--gpus", str(tmp_path / "gpus.toml"), "--gpu", "My GPU", "--target", "T4")
    assert mine["source"] == "My GPU" and mine["predictions"][0]["ratio"] > 1
    assert any("recorded on T4; by --gpu it counts as My GPU" in note for note in mine["notes"])
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "cloud,instance,gpu,count,region,usd_per_hour,source,date\nmine,box,My GPU,1,attic,0.05,my bill,2026-11-01\n"
    )
    assert main(["recommend", profile, "--gpus", str(tmp_path / "gpus.toml"), "--prices", str(prices), "--json"]) == 0
    assert [row["gpu"] for row in json.loads(capsys.readouterr().out)["recommendations"]] == ["My GPU"]


def test_recommend_ranks_the_job_that_predict_adds_up(folder: Path, capsys: Capture) -> None:
    path = str(folder / "stalled.json")
    jobs = {each["gpu"]: each["job"]["seconds"] for each in _answer(capsys, path, "--epochs", "90")["predictions"]}
    assert main(["recommend", path, "--epochs", "90", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["recommendations"]
    assert rows and all(row["seconds"] == pytest.approx(jobs[row["gpu"]]) for row in rows)
    assert main(["recommend", path, "--epochs", "90"]) == 0
    text = capsys.readouterr().out
    assert "\n90 epochs of a job seen on T4" in text and "178 s of stalls" in text


def test_a_gpu_that_only_the_trace_knows(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    trace = replace(read_trace(folder / "run.parquet"), gpu="NVIDIA Unheard-of 5", static=STATIC)
    path = str(write_trace(trace, tmp_path / "new.parquet"))
    answer = _answer(capsys, path, "--target", "T4")
    assert answer["source"] == "NVIDIA Unheard-of 5" and answer["predictions"][0]["ratio"] > 1


def test_explain_says_what_makes_the_ratio(folder: Path, capsys: Capture) -> None:
    profile = str(folder / "gpu0.json")
    prediction = _answer(capsys, profile, "--target", "A10G", "--explain")["predictions"][0]
    product = 1.0
    for effect in prediction["explanation"]:
        product *= effect["factor"]
    assert product == pytest.approx(prediction["ratio"])
    text = _text(capsys, profile, "--target", "A10G", "--explain")
    assert (
        "A10G: what makes the ratio" in text
        and text.count("for a typical job on the source") == 1
        and "gpu_utilization" in text
        and ", typical " in text
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict"], "Missing argument"),
        (["predict", "{neither}", "--epochs", "3"], "there are only ratios"),
        (["predict", "{profile}", "--epochs", "0"], "--epochs is 0; give 1 to"),
        (["predict", "{profile}", "--gpus", "missing.toml"], "missing.toml"),
        (["predict", "{profile}", "missing.parquet"], "no such file: 'missing.parquet'"),
        (["profile", "missing.parquet"], "no such file"),
        (["profile", "{run}", "--out", "nowhere/run.json"], "nowhere"),
        (["profile", "{run}", "--out", "."], "'.': it is a folder; name a file"),
        (["predict", "percent.csv", "--gpu", "T4"], "percent.csv': 'gpu_utilization' ranges"),
        (["recommend", "{neither}", "--epochs", "3"], "there are only ratios"),
        (["profile", "bad.json"], "'bad.json': the profile's schema is None"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], says: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "percent.csv").write_text(
        "time,gpu_utilization\n" + "".join(f"{tick / 10},{90 - tick % 7}\n" for tick in range(400))
    )
    monkeypatch.chdir(tmp_path)
    names = {"run": str(folder / "run.parquet"), "profile": str(folder / "gpu0.json"), "neither": str(folder / "neither.json")}
    assert main([argument.format(**names) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err and captured.err.count("\n") == 1 and captured.out == ""
