"""The demo trains for real: a loss that falls, marks that hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.demo import trainer
from epochcast.analyzer.traces.labels import read_labels


def test_a_short_run_learns_and_leaves_marks_that_fit_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow network on few images, the same however fast this machine is: enough to learn something."""
    few = {"_LEAST_IMAGES": 1024, "_MOST_IMAGES": 1024, "_CALIBRATION_IMAGES": 64, "_CALIBRATION_S": 0.0, "_LAYERS": (64,)}
    for name, value in few.items():
        monkeypatch.setattr(trainer, name, value)
    marks, lines = tmp_path / "marks.json", list[str]()
    trainer.train(0.1, marks, say=lines.append)
    labels, record = read_labels(marks), json.loads(marks.read_text())
    assert labels.training and len(labels.epoch_starts) >= 5
    assert all(end <= start for end, start in zip(labels.epoch_ends[:-1], labels.epoch_starts[1:], strict=True))
    assert len(record["losses"]) == len(record["accuracies"]) == len(labels.epoch_starts)
    assert record["losses"][-1] < 0.85 * record["losses"][0]
    assert record["accuracies"][-1] > 0.2  # ten classes: guessing gives 0.1
    assert sum("validation accuracy" in line for line in lines) == len(labels.epoch_starts)
    with np.load(tmp_path / "marks.checkpoint.npz") as checkpoint:
        assert checkpoint["arr_0"].shape == (256, 64)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["marks.checkpoint.npz", "marks.json"]
