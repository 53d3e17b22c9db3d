"""The demo's parts together: real processes, a real (short) training, and every failure as one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.demo import recordings, run
from epochcast.analyzer.demo.recordings import TrainerError, gpu_trace, record_training, replay_trace
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.detector.labels import Labels
from epochcast.detector.simulator import simulate


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less idle time before and after a training, and a replay that is asked more often whether it has ended."""
    monkeypatch.setattr(recordings, "_LEAD_S", 0.5)
    monkeypatch.setattr(recordings, "_POLL_S", 0.05)


@pytest.fixture
def one_core() -> Iterator[None]:
    """What is started trains on one core: it trains for some seconds on any machine, and another would only cost more."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def lines() -> list[str]:
    return []


def short_trace() -> tuple[Trace, Labels]:
    made = simulate(1, epochs=5, epoch_s=10.0, validation_s=1.0, lead_s=4.0)
    frame = pd.DataFrame({"time": made.time, **made.metrics})
    return Trace(frame, gpu=made.gpu, source="simulator", simulated=True), Labels.from_json(made.labels())


@pytest.mark.usefixtures("one_core")
def test_whole_path_with_a_short_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    monkeypatch.setattr(run, "gpu_trace", short_trace)
    summary = run.run_demo(tmp_path / "out", live_seconds=5, progress=lines.append)
    assert summary["problems"] == []
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    assert "Epochcast demo" in (tmp_path / "out" / "report.html").read_text()

    labels = read_labels(tmp_path / "out" / "live.json")
    recorded = read_trace(tmp_path / "out" / "live.csv")
    assert summary["live"]["true_period_s"] == pytest.approx(float(np.median(np.diff(labels.epoch_starts))))
    assert recorded.source == "host" and not recorded.simulated
    assert recorded.time[0] < labels.epoch_starts[0] and labels.epoch_ends[-1] < recorded.time[-1]
    assert 0 <= summary["live"]["confidence"] <= 1

    assert summary["replay"]["simulated"] is True
    assert summary["replay"]["verdict"] == "epochs"
    assert summary["replay"]["error_percent"] < 5
    ratios = {prediction["gpu"]: prediction["ratio"] for prediction in summary["predictions"]}
    assert ratios[summary["replay"]["gpu"]] == pytest.approx(1)
    assert summary["recommendation"]["cheapest"]["usd"] <= summary["recommendation"]["fastest"]["usd"]
    assert summary["recommendation"]["fastest"]["seconds"] <= summary["recommendation"]["cheapest"]["seconds"]
    assert any("training a CNN" in line for line in lines) and any("replaying" in line for line in lines)
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["live.csv", "live.json", "replay.csv", "replay.json", "report.html", "summary.json"]


def test_a_training_that_fails_is_one_sentence_and_leaves_nothing_half(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(TrainerError, match=r"ended with status 2 after 0 epochs: --seconds is 1; give 5 to 3600") as error:
        record_training(tmp_path, 1, lines.append)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    monkeypatch.setattr(recordings, "_MOST_S", 0.0)
    with pytest.raises(TrainerError, match=r"had 0 epochs after 0 s and was stopped; try a less busy machine"):
        record_training(tmp_path, 60, lines.append)


def test_one_part_that_fails_leaves_the_others_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise TrainerError("the training ended with status -9 after 0 epochs: starting")

    monkeypatch.setattr(run, "record_training", fail)
    monkeypatch.setattr(run, "gpu_trace", short_trace)
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


def test_a_replay_gives_back_what_was_recorded(tmp_path: Path, lines: list[str]) -> None:
    original, labels = short_trace()
    played = replay_trace(original, labels, tmp_path, lines.append)
    assert played.simulated and played.gpu == "Tesla T4" and played.source == "replay"
    np.testing.assert_allclose(played.time, original.time, atol=1e-3)
    for name in original.metric_names:
        np.testing.assert_allclose(played.metrics()[name], original.metrics()[name], rtol=1e-6, err_msg=name)
    assert read_labels(tmp_path / "replay.json") == labels


def test_the_gpu_trace_says_that_it_is_simulated() -> None:
    assert gpu_trace()[0].simulated
