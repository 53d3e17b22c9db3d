"""The demo's parts together, and every failure as one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.demo import recordings, run
from epochcast.analyzer.demo.recordings import TrainerError, gpu_trace, record_training
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import read_trace
from epochcast.detector import detect

from .conftest import Demo


def test_the_live_training_is_recorded_with_its_true_epochs(demo: Demo) -> None:
    folder, summary, lines = demo
    assert summary["problems"] == []
    assert json.loads((folder / "summary.json").read_text()) == summary
    labels, recorded = read_labels(folder / "live.json"), read_trace(folder / "live.csv")
    assert summary["live"]["true_period_s"] == pytest.approx(float(np.median(np.diff(labels.epoch_starts))))
    assert recorded.source == "host" and not recorded.simulated
    assert recorded.time[0] < labels.epoch_starts[0] and labels.epoch_ends[-1] < recorded.time[-1]
    assert 0 <= summary["live"]["confidence"] <= 1
    assert any("training a network" in line for line in lines) and any("replaying" in line for line in lines)
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["live.csv", "live.json", "replay.csv", "replay.json", "report.html", "summary.json"]


def test_the_gpu_trace_comes_back_as_recorded_and_is_answered(demo: Demo) -> None:
    replay, (trace, labels) = demo.summary["replay"], gpu_trace()
    assert trace.simulated and replay["simulated"] is True
    assert replay["samples"] == len(trace.frame)
    assert replay["period_s"] == pytest.approx(detect(trace.time, trace.metrics()).period_s, rel=1e-4)
    assert (replay["verdict"], replay["found"]) == ("epochs", True)
    assert read_labels(demo.folder / "replay.json") == labels
    ratios = {prediction["gpu"]: prediction["ratio"] for prediction in demo.summary["predictions"]}
    assert ratios[replay["gpu"]] == pytest.approx(1)
    assert demo.summary["recommendation"]["verdict"]["text"].startswith("Stay where it runs (assumed: ")


def test_a_training_that_fails_is_one_sentence_and_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "_LEAD_S", 0.1)
    with pytest.raises(TrainerError, match=r"ended with status 1 after 0 epochs: .*No such file"):
        record_training(tmp_path / "absent", 1, print)
    monkeypatch.setattr(recordings, "_MOST_S", 0.0)
    with pytest.raises(TrainerError, match=r"had 0 epochs after 0 s and was stopped; try a less busy machine"):
        record_training(tmp_path, 60, print)


def test_one_part_that_fails_leaves_the_others_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise TrainerError("the training ended with status -9 after 0 epochs: starting")

    monkeypatch.setattr(run, "record_training", fail)
    monkeypatch.setattr(run, "replay_trace", lambda trace, *_: trace)
    summary = run.run_demo(tmp_path)
    assert summary["problems"][0].startswith("Live training: the training ended with status -9")
    assert summary["live"]["period_s"] is None and summary["live"]["verdict"] == "none"
    assert summary["replay"]["found"]
    assert "status -9" in (tmp_path / "report.html").read_text()


def test_an_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be used as a folder"):
        run.run_demo(tmp_path / "taken")
