"""``epochcast recommend`` from the command line: what it prints, draws, and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochcast.analyzer.cli import main
from epochcast.regressor import Profile
from epochcast.regressor.profile_json import profile_json

Capture = pytest.CaptureFixture[str]
Answer = Callable[..., dict[str, Any]]
Text = Callable[..., str]
GIB = 2.0**30


def _statistics(mean: float) -> dict[str, float]:
    return {"mean": mean, "std": 0.0, "min": mean, "p25": mean, "p50": mean, "p75": mean, "max": mean}


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that keeps a T4 busy with 6 GiB of its memory; one without epochs lies next to it."""
    folder = tmp_path_factory.mktemp("profiles")
    metrics = {"gpu_utilization": 0.95, "memory_utilization": 0.5, "power": 68.0, "sm_clock": 1.2e9}
    metrics |= {"memory_used": 6 * GIB, "memory_free": 9 * GIB}
    known = {"gpu": "T4", "epochs": 5, "feature_set": "nvml", "first_epoch_excluded": True}
    known["metrics"] = {name: _statistics(mean) for name, mean in metrics.items()}
    for name, epoch in (("job", {"epoch_s": 40.0, "unit": "epoch"}), ("ratios", {"epoch_s": None, "unit": None})):
        (folder / f"{name}.json").write_text(json.dumps(profile_json(Profile(**known, **epoch))))  # type: ignore[arg-type]
    return str(folder / "job.json")


def test_the_gpus_of_one_job_are_rented_together(profile: str, answer: Answer, text: Text) -> None:
    six = ("recommend", *[profile] * 6, "--cloud", "aws")
    found = answer(*six, "--machines", "2")
    assert sum("precision not known" in note for note in found["notes"]) == 1
    printed = text(*six, "--machines", "2", "--all")
    assert "2 x 4 A10G" in printed and "8 A10G" in printed and "for the 6 epochs seen" in " ".join(printed.split())
    assert "assumed to be as fast as between the job's machines now" in printed
    assert "the job has 6 GPUs now and would use all GPUs of an instance" in printed
    assert {row["instances"] for row in answer(*six)["recommendation"]["placements"]} == {1}


def test_what_does_not_fit_is_said(profile: str, answer: Answer, text: Text) -> None:
    printed = text("recommend", profile, "--memory", "30", "--epochs", "9000")
    assert "have too little GPU memory" in " ".join(printed.split())
    assert "memory: 30.0 GiB" in text("recommend", profile, "--memory", "30", "--epochs", "9000", "--all")
    less = answer("recommend", profile, "--memory", "1")
    assert not any("fit into" in note for note in less["notes"]), "what the user says counts, not what was in use"
    text("recommend", profile, "--memory", "3000", status=1)  # not even the GPU that it ran on has that much


def test_a_trace_without_memory_doubts_every_instance_at_once(profile: str, tmp_path: Path, capsys: Capture) -> None:
    content = json.loads(Path(profile).read_text())
    content["metrics"] = {name: values for name, values in content["metrics"].items() if not name.startswith("memory_used")}
    (tmp_path / "job.json").write_text(json.dumps(content))
    assert main(["recommend", str(tmp_path / "job.json")]) == 0
    text, notes = capsys.readouterr()
    assert "memory (--memory)" in " ".join(text.split()) and not notes


def test_a_job_that_is_known_by_its_steps_is_answered_in_steps(profile: str, tmp_path: Path, text: Text) -> None:
    stepped = json.loads(Path(profile).read_text()) | {"unit": "step"}
    (tmp_path / "steps.json").write_text(json.dumps(stepped))
    assert "for 9,000 steps" in " ".join(text("recommend", str(tmp_path / "steps.json"), "--epochs", "9000").split())
    assert "the 6 steps seen" in " ".join(text("recommend", str(tmp_path / "steps.json")).split())


def test_what_is_not_shown_to_be_training_has_no_cost(profile: str, tmp_path: Path, answer: Answer, text: Text) -> None:
    cycle = json.loads(Path(profile).read_text()) | {"unit": "cycle"}
    (tmp_path / "cycle.json").write_text(json.dumps(cycle))
    for command, why in (
        ((str(tmp_path / "cycle.json"),), "A cycle of 40.0 s is not shown to be an epoch, so there is no cost of a job"),
        ((profile, "--inference"), "Inference has no epochs, so there is no cost of a job"),
    ):
        command = (*command, "--price-now", "9")
        found = answer("recommend", *command)["recommendation"]
        assert found["verdict"]["action"] == "measure" and not found["verdict"]["certain"]
        assert {(row["seconds"], row["usd"]) for row in found["placements"]} == {(None, None)}
        printed = " ".join(text("recommend", *command).split())
        assert "probably does the same work for 0." in printed and why in printed and "$" not in printed.split("Assumed")[0]


def test_a_gpu_is_answered_in_a_line(profile: str, text: Text, refusal: Callable[..., str]) -> None:
    lines = text("recommend", profile, "--epochs", "900", "--target", "H100", "--target", "a10g").splitlines()
    assert lines[0] == "For 900 epochs of a job seen on T4:"
    assert "(H100 SXM5): $" in lines[1] and " in " in lines[1] and lines[1].endswith("evidence: other jobs")
    assert "(A10G): $" in lines[2]
    assert "unknown GPU 'A11'" in refusal("recommend", profile, "--target", "A11")


def test_what_is_free_is_ranked(profile: str, tmp_path: Path, answer: Answer, text: Text) -> None:
    (tmp_path / "free.csv").write_text("instance,region,free\ng4dn.xlarge,us-east-1,1\ng5.xlarge,us-east-1,0\n")
    command = ("recommend", profile, "--epochs", "9000", "--price-now", "9", "--inventory", str(tmp_path / "free.csv"))
    assert {row["instance"]["name"] for row in answer(*command)["recommendation"]["placements"]} == {"g4dn.xlarge"}
    assert " are full." in " ".join(text(*command).split())


def test_skypilot_gets_the_best_and_what_may_be_as_good(profile: str, answer: Answer, capsys: Capture) -> None:
    found = answer("recommend", profile, "--epochs", "9000")["recommendation"]
    assert main(["recommend", profile, "--epochs", "9000", "--format", "skypilot"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# 9,000 epochs of a job seen on T4")
    resources = yaml.safe_load(text)["resources"]
    types = [one["instance_type"] for one in resources.get("ordered", [resources])]
    assert types[0] == found["verdict"]["best"]["instance"]["name"] and len(types) > 1
    assert set(types) <= {row["instance"]["name"] for row in found["placements"]}


def test_spot_prices_say_what_they_leave_out(profile: str, capsys: Capture) -> None:
    assert main(["recommend", profile, "--spot"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Spot: an interruption costs all since the last checkpoint" in text


def test_plots_are_drawn(profile: str, tmp_path: Path, capsys: Capture) -> None:
    pareto = tmp_path / "pareto.png"
    assert main(["recommend", profile, "--epochs", "90", "--plot", str(pareto)]) == 0
    assert pareto.read_bytes().startswith(b"\x89PNG")


def test_nothing_qualifies(profile: str, answer: Answer, capsys: Capture) -> None:
    assert answer("recommend", profile, "--budget", "1e-9", status=1)["recommendation"]["placements"] == []
    assert main(["recommend", profile, "--budget", "1e-9"]) == 1
    captured = capsys.readouterr()
    assert not captured.out and "exceed the budget; loosen a limit.\nthe fastest" in captured.err
    rows = answer("recommend", profile)["recommendation"]["placements"]
    for name, says in (("seconds", "the fastest of them"), ("usd", "the cheapest")):
        best = min(rows, key=lambda row: row[name]["value"])["instance"]
        assert f"{says}: {best['cloud']} {best['name']} ({best['gpu']})" in captured.err, "so one knows how far to loosen it"
    assert "e-0" not in captured.err, "no USD in scientific notation"
    assert main(["recommend", profile, "--budget", "1e-9", "--format", "skypilot"]) == 1
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--startup", "5m"], "a start-up of 300 s belongs to a whole job"),
        (["--price-now", "-1"], "--price-now is -1; give a number above 0"),
        (["--inventory", "none.csv"], "no such price file: 'none.csv'"),
        (["--region", "atlantis-1"], "has region 'atlantis-1'"),
        (["--cloud", "acme"], "has cloud 'acme'"),
        (["--memory", "0"], "0 is not above 0"),
        (["--json", "--format", "skypilot"], "exclude each other"),
        (["--plot", "plot.jpeg"], "name a file that ends in .png"),
    ],
)
def test_bad_options_are_one_sentence(profile: str, options: list[str], says: str, capsys: Capture) -> None:
    assert main(["recommend", profile, *options]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "prices are older" not in line]
    assert len(errors) == 1 and says in errors[0]
