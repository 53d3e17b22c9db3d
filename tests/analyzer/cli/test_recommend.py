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
    printed = text(*six, "--machines", "2")
    assert "one epoch of a job seen on 6 x T4" in printed and "2 x 4 A10G" in printed and "8 A10G" in printed
    assert "assumed to be as fast as between the job's machines now" in printed
    assert "the job has 6 GPUs now and would use all GPUs of an instance" in printed
    assert {row["instances"] for row in answer(*six)["recommendation"]["placements"]} == {1}


def test_what_does_not_fit_is_said(profile: str, answer: Answer, text: Text) -> None:
    printed = text("recommend", profile, "--memory", "30", "--epochs", "9000")
    assert "instances that have too little GPU memory" in printed and "memory: 30.0 GiB" in printed
    less = answer("recommend", profile, "--memory", "1")
    assert not any("fit into" in note for note in less["notes"]), "what the user says counts, not what was in use"
    text("recommend", profile, "--memory", "3000", status=1)  # not even the GPU that it ran on has that much


def test_a_trace_without_memory_doubts_every_instance_at_once(profile: str, tmp_path: Path, capsys: Capture) -> None:
    content = json.loads(Path(profile).read_text())
    content["metrics"] = {name: values for name, values in content["metrics"].items() if not name.startswith("memory_used")}
    (tmp_path / "job.json").write_text(json.dumps(content))
    assert main(["recommend", str(tmp_path / "job.json")]) == 0
    text, notes = capsys.readouterr()
    assert "the job's GPU memory need is unknown" in notes and "may not fit" not in text and "?" not in text


def test_a_doubtful_place_names_the_run_that_decides(profile: str, answer: Answer, capsys: Capture) -> None:
    found = answer("recommend", profile, "--epochs", "9000", "--objective", "time")
    decision = found["recommendation"]["decision"]
    assert decision["rivals"] and decision["experiment"]["worth"]
    run = decision["experiment"]["run"]["placement"]["instance"]  # the best of its GPU
    rows = found["recommendation"]["placements"]
    assert run == next(row["instance"] for row in rows if row["instance"]["gpu"] == run["gpu"])
    assert main(["recommend", profile, "--epochs", "9000", "--objective", "time"]) == 0
    captured = capsys.readouterr()
    assert "\nnot certain: " in captured.out and "\nto decide better, run " in captured.out
    named = "{name} ({gpu})".format(**run)  # one host of Google takes several GPUs
    assert named in captured.out and "epochs on " in captured.out
    assert "older than a year" not in captured.err, "no stale price decides here"


def test_a_job_that_is_known_by_its_steps_is_told_in_steps(profile: str, tmp_path: Path, capsys: Capture) -> None:
    stepped = json.loads(Path(profile).read_text()) | {"unit": "step"}
    (tmp_path / "steps.json").write_text(json.dumps(stepped))
    assert main(["recommend", str(tmp_path / "steps.json"), "--epochs", "9000", "--objective", "time"]) == 0
    text = capsys.readouterr().out
    assert "\n9,000 steps of a job" in text and " steps on " in text and "epochs on" not in text


def test_skypilot_gets_the_first_and_what_may_be_as_good(profile: str, answer: Answer, capsys: Capture) -> None:
    decision = answer("recommend", profile, "--epochs", "900")["recommendation"]["decision"]
    assert main(["recommend", profile, "--epochs", "900", "--format", "skypilot"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# 900 epochs of a job seen on T4")
    resources = yaml.safe_load(text)["resources"]
    wanted = [one["instance"]["name"] for one in (decision["first"], *(each["placement"] for each in decision["rivals"]))]
    assert [one["instance_type"] for one in resources.get("ordered", [resources])] == wanted


def test_spot_prices_say_what_they_leave_out(profile: str, capsys: Capture) -> None:
    assert main(["recommend", profile, "--spot"]) == 0
    text, notes = capsys.readouterr()
    assert "can reclaim an instance" in notes and "have no price in this market" in text


def test_plots_are_drawn(profile: str, tmp_path: Path, capsys: Capture) -> None:
    pareto = tmp_path / "pareto.png"
    assert main(["recommend", profile, "--epochs", "90", "--plot", str(pareto)]) == 0
    assert pareto.read_bytes().startswith(b"\x89PNG")


def test_nothing_qualifies(profile: str, answer: Answer, capsys: Capture) -> None:
    assert answer("recommend", profile, "--budget", "1e-9", status=1)["recommendation"]["placements"] == []
    assert main(["recommend", profile, "--budget", "1e-9"]) == 1
    captured = capsys.readouterr()
    assert not captured.out and "No instance qualifies" in captured.err and "exceed the budget" in captured.err
    whole = answer("recommend", profile)["recommendation"]
    for best, says in ((whole["fastest"], "the fastest of them"), (whole["cheapest"], "the cheapest")):
        assert f"{says}: {best['instance']['name']} ({best['instance']['gpu']})" in captured.err, (
            "so that one knows how far to loosen it"
        )
    assert "e-0" not in captured.err, "no USD in scientific notation"
    assert main(["recommend", profile, "--budget", "1e-9", "--format", "skypilot"]) == 1
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--startup", "5"], "--startup 5 applies to a whole job"),
        (["--epochs", "3", "--idle-share", "1"], "the idle share is 1.0"),
        (["--region", "atlantis-1"], "has region 'atlantis-1'"),
        (["--cloud", "acme"], "has cloud 'acme'"),
        (["--memory", "0"], "--memory is 0;"),
        (["--json", "--format", "skypilot"], "exclude each other"),
        (["--plot", "plot.jpeg"], "name a file that ends in .png"),
    ],
)
def test_bad_options_are_one_sentence(profile: str, options: list[str], says: str, capsys: Capture) -> None:
    assert main(["recommend", profile, *options]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "prices are older" not in line]
    assert len(errors) == 1 and says in errors[0]
