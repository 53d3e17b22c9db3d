"""The precision of a job: declared, shown by telemetry, or not known; and which metrics the answers rest on."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.regressor import LatencyPredictor, Profile, load_catalog
from epochcast.regressor.calibration import ROUTE as CALIBRATED
from epochcast.regressor.profile import feature_set
from epochcast.regressor.profile_json import profile_json, read_profile

Save = Callable[..., str]
H100 = ("--target", "H100 SXM5")
NVML = {"gpu_utilization": 0.92, "memory_utilization": 0.45, "power": 240.0, "sm_clock": 1.4e9}


def _profile(gpu: str, measured: dict[str, float], **known: Any) -> Profile:
    spread = {"mean": 1.0, "std": 0.05, "min": 0.9, "p25": 0.98, "p50": 1.0, "p75": 1.02, "max": 1.05}
    metrics = {name: {of: mean * times for of, times in spread.items()} for name, mean in measured.items()}
    return Profile(gpu, 100.0, "epoch", 9, metrics, feature_set(metrics), True, **known)


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write the profile of a job, on a V100 with NVML's metrics unless said otherwise."""

    def write(gpu: str = "V100 SXM2 16GB", measured: dict[str, float] = NVML, **known: Any) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(profile_json(_profile(gpu, measured, **known))))
        return str(path)

    return write


def test_a_declared_precision_changes_the_answer(save: Save, answer: Callable[..., Any], text: Callable[..., str]) -> None:
    job = save()
    unknown = answer("predict", job, *H100)
    fp32, mixed = (answer("predict", job, *H100, "--precision", name) for name in ("tf32", "mixed"))
    assert (unknown["precision"], mixed["precision"]) == ({"tf32": 0.5, "mixed": 0.5}, {"mixed": 1.0})
    between, low, high = (each["predictions"][0] for each in (unknown, fp32, mixed))
    assert low["ratio"] < between["ratio"] < high["ratio"] and high["ratio"] > 1.1 * low["ratio"]
    assert between["by_precision"] == pytest.approx({"tf32": low["ratio"], "mixed": high["ratio"]})
    assert low["by_precision"] == high["by_precision"] == {}
    widths = [each["ratio_high"] / each["ratio_low"] for each in (between, low, high)]
    assert widths[0] > max(widths[1:]), "not to know it is less sure"
    assert "the job computes in mixed precision: declared" in mixed["notes"]
    assert "declared" in text("predict", save(precision="fp32"), *H100)
    rows = [answer("recommend", job, "--precision", name) for name in ("tf32", "mixed")]
    ratios = [
        {row["prediction"]["gpu"]: row["prediction"]["ratio"] for row in each["recommendation"]["placements"]} for each in rows
    ]
    assert ratios[0]["H100 SXM5"] == pytest.approx(low["ratio"]) and ratios[1]["H100 SXM5"] == pytest.approx(high["ratio"])
    assert rows[1]["precision"] == {"mixed": 1.0} and "the job computes in mixed precision: declared" in rows[1]["notes"]


@pytest.mark.parametrize("command", ["predict", "recommend"])
def test_another_precision_than_the_profile_says_is_refused(
    command: str, save: Save, text: Callable[..., str], refusal: Callable[..., str]
) -> None:
    job = save(precision="mixed")
    said = refusal(command, job, "--precision", "tf32")
    assert "has precision 'mixed', and --precision is 'tf32'; leave --precision out" in said
    text(command, job, "--precision", "mixed")
    assert "'int8' is not one of 'fp32', 'tf32', 'mixed', 'fp8'" in refusal(command, job, "--precision", "int8")


def test_an_unknown_precision_is_said_with_what_each_would_give(
    save: Save, answer: Callable[..., Any], text: Callable[..., str]
) -> None:
    job, targets = save(), ("--target", "V100 PCIe 16GB", *H100)
    document = answer("predict", job, *targets)
    of = next(one["by_precision"] for one in document["predictions"] if one["gpu"] == "H100 SXM5")
    (note,) = (note for note in document["notes"] if "precision" in note)
    assert f"on H100 SXM5 {of['tf32']:.2f}x in FP32 code, {of['mixed']:.2f}x in mixed precision; state it" in note
    assert "FP32 code counts as TF32 from Ampere on" in note and "TF32 off: state fp32" in note
    assert f"epochcast: {note}" in text("predict", job, *targets)
    (of_all,) = (note for note in answer("recommend", job)["notes"] if "precision" in note)
    assert "x in FP32 code, " in of_all and "x in mixed precision; state it" in of_all
    assert f"{of_all}\n" in text("recommend", job, "--all")
    assert "precision (--precision)" in " ".join(text("recommend", job).split())


def test_tensor_cores_at_work_say_the_precision(save: Save, answer: Callable[..., Any], text: Callable[..., str]) -> None:
    plain, dcgm = save(), {"tensor_active": 0.65, "dram_active": 0.4, "sm_occupancy": 0.35}
    busy, idle = save(measured=NVML | dcgm), save(measured=NVML | dcgm | {"tensor_active": 0.0})
    by_job = {job: answer("predict", job, *H100) for job in (plain, busy, idle)}
    ratio = {job: each["predictions"][0]["ratio"] for job, each in by_job.items()}
    assert ratio[idle] < ratio[plain] < ratio[busy]
    assert ratio[busy] == pytest.approx(answer("predict", plain, *H100, "--precision", "mixed")["predictions"][0]["ratio"])
    assert "tensor_active" in by_job[busy]["predictions"][0]["features"]
    assert any("tensor_active is 0.65, and on the V100 SXM2 16GB only 16 bits" in note for note in by_job[busy]["notes"])
    (shown,) = (
        note for note in by_job[idle]["notes"] if note.startswith("the job computes in FP32 code: tensor_active is 0.00")
    )
    assert "counts as TF32 from Ampere on" in shown
    printed = text("predict", busy, *H100)
    used, only = printed.splitlines()[1].split("; recorded only: ")
    assert used == "used: gpu_utilization, tensor_active, power (energy)"
    assert only == "dram_active, memory_utilization, sm_clock, sm_occupancy"


def test_metrics_are_used_or_recorded_only(save: Save, text: Callable[..., str]) -> None:
    known = ("--precision", "tf32", "--target")
    printed = text("predict", save(measured=NVML | {"temperature": 60.0}), *known, "A10G")
    assert "used: gpu_utilization, memory_utilization, power, sm_clock; recorded only: temperature\n" in printed
    averaged = {"power_average" if name == "power" else name: mean for name, mean in NVML.items()}
    printed = text("predict", save(measured=averaged), *known, "A10G")
    assert "used: gpu_utilization, memory_utilization, power, sm_clock\n" in printed, "power_average replaces power"
    printed = text("predict", save(measured={"power": 240.0, "sm_clock": 1.4e9}), *known, "A10G")
    assert "no activity metric recorded\nused: power (energy); recorded only: sm_clock\n" in printed
    assert "no activity metric recorded\n" in text("predict", save(measured={}), *known, "A10G")


def test_each_row_says_what_it_rests_on(save: Save, text: Callable[..., str]) -> None:
    printed = text("predict", save(), "--precision", "tf32", *H100, "--target", "H100 NVL", "--target", "A10G")
    rows = {line.split("  ")[0]: line for line in printed.splitlines()}
    assert "jobs like this" in rows["A10G"] and "other jobs" in rows["H100 SXM5"] and "data sheet" in rows["H100 NVL"]
    (one,) = LatencyPredictor.load().predict(read_profile(example_profile()), ["A10G"])
    rests = [
        (route, support) for route, support in (("telemetry", 1.0), ("telemetry", 0.4), (CALIBRATED, 1.0), ("measured", 1.0))
    ]
    said = [replace(one, route=route, support=support).basis for route, support in rests]
    assert said == ["jobs like this", "other jobs", "jobs like this", "this GPU"]


def test_the_precision_of_training_profiles_that_do_not_say_theirs(
    tmp_path: Path, answer: Callable[..., Any], text: Callable[..., str]
) -> None:
    """Without telemetry, so that only the speeds are learnt, which the text says."""
    data, out = tmp_path / "data", str(tmp_path / "model")
    data.mkdir()
    for number in range(10):
        for gpu, seconds in (("T4", 10.0 + number), ("A10G", 5.0 + number / 2)):
            job = {"workload": f"w{number}", "group": f"g{number % 5}", "precision": "tf32" if number == 0 else None}
            profile = replace(_profile(gpu, {}, **job), epoch_s=seconds)
            (data / f"{gpu}-{number}.json").write_text(json.dumps(profile_json(profile)))
    arguments = ["fit", "regressor", "--data", str(data), "--precision", "mixed", "--out", out]
    printed = text(*arguments)
    assert "metrics: none, because too few profiles have telemetry; only GPU speeds were learnt" in printed
    document = answer(*arguments)
    assert (document["metrics"], document["excluded"]) == ([], {})
    catalog, levels = load_catalog(), LatencyPredictor.load(Path(out)).recipe.ridge_.levels_
    assert {key.split("|")[1] for key in levels["architecture of family"]} == {"tf32", "mixed"}
    ridge = LatencyPredictor.load(Path(out)).recipe.ridge_
    assert ridge.jobs_on_both(catalog["T4"], catalog["A10G"]) == 5, "jobs are told apart by their group"


@pytest.mark.parametrize(("tensor", "fp32"), [(0.0, 0.6), (0.5, 0.1)])
def test_the_arithmetic_that_a_job_uses(
    tensor: float, fp32: float, save: Save, answer: Callable[..., Any], text: Callable[..., str]
) -> None:
    measured = {"sm_active": 0.9, "tensor_active": tensor, "fp32_active": fp32, "sm_clock": 1.41e9}
    job = save("A100 SXM4 80GB", measured, tensor_clock=tensor * 1.41e9)
    for command in ("predict", "recommend"):
        found = answer(command, job)
        assert found["use"]["ofu"] == pytest.approx(tensor)
        faster = "no tensor cores work; the SMs are busy, so tensor cores may be several times as fast"
        assert any(faster in note for note in found["notes"]) is (tensor == 0.0)
    assert f"tensor cores: {100 * tensor:.0f} % of their peak used (OFU)" in text("predict", job, *H100)
    assert answer("predict", save())["use"]["ofu"] is None


def test_how_long_a_job_is_held_but_idle_and_why_its_clock_is_reduced(
    save: Save, answer: Callable[..., Any], text: Callable[..., str]
) -> None:
    known = {"held_idle_s": 90.0, "throttled": {"power_cap": 0.11, "thermal": 0.02}}
    pair = [save(**known), save(held_idle_s=30.0)]
    sentence = "11 % of an epoch at reduced clock: power cap (SM clock at 92 % of its highest)"
    for command in (("predict", *pair, *H100), ("recommend", *pair, "--all")):
        found, printed = answer(*command)["use"], text(*command)
        assert (found["held_idle_s"], found["held_idle_usd"]) == (120.0, None), "the price of what is only assumed is no price"
        assert (found["throttled"], found["reduced_clock"]) == (known["throttled"], sentence)
        assert "held but idle: 2 min\n" in printed and sentence in printed
    assert [gpu["profile"]["throttled"] for gpu in answer("predict", *pair, *H100)["gpus"]] == [known["throttled"], None]
    assert answer("predict", save(**known), save(), *H100)["use"]["held_idle_s"] is None, "what one GPU shows is not the sum"
    assert "held but idle" not in text("predict", save(), *H100)
    assert answer("predict", save(throttled={"power_cap": 0.009}), *H100)["use"]["reduced_clock"] is None


def test_what_the_job_is_counts_and_is_said(
    save: Save, answer: Callable[..., Any], text: Callable[..., str], refusal: Callable[..., str]
) -> None:
    job = save(measured={}, precision="mixed")
    asked = (("--type", "llm"), ("--family", "resnet50", "--inference"), ())
    llm, network, unknown = (answer("predict", job, *H100, *told) for told in asked)
    assert len({document["predictions"][0]["ratio"] for document in (llm, network, unknown)}) == 3
    assert "the job is taken for training of type llm" in llm["notes"]
    assert "the job is taken for inference of type cnn, of the family resnet50" in network["notes"]
    assert "taken for inference by a cnn, family resnet" in network["predictions"][0]["why"]
    (note,) = (note for note in unknown["notes"] if "mean over types; state it" in note)
    assert note in text("recommend", job, "--all")
    assert "'gan' is not one of 'cnn', " in refusal("recommend", job, "--type", "gan")
    assert "has type 'rnn', and --type is 'cnn'; leave --type out" in refusal("predict", save(type="rnn"), "--type", "cnn")
