"""The demo trains for real: right gradients, a loss that falls, marks that hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.demo import cnn, images, trainer
from epochcast.analyzer.demo.cnn import Network, initial_parameters
from epochcast.analyzer.traces.labels import read_labels


def doubles(size: int, seed: int) -> Network:
    """A network in float64, in which finite differences are exact enough to check a gradient by."""
    network = Network(initial_parameters(size, 4, np.random.default_rng(seed)))
    network.parameters = {name: values.astype(np.float64) for name, values in network.parameters.items()}  # type: ignore[misc]
    return network


def test_gradients_agree_with_finite_differences() -> None:
    rng = np.random.default_rng(0)
    network = doubles(8, 1)
    pixels, labels = rng.standard_normal((5, 8, 8, 1)), rng.integers(4, size=5)
    _, gradients = network.gradients(pixels, labels)  # type: ignore[arg-type]
    assert set(gradients) == set(network.parameters)
    for name, gradient in gradients.items():
        values = network.parameters[name]
        assert gradient.shape == values.shape
        for flat in rng.choice(values.size, size=min(6, values.size), replace=False):
            place = np.unravel_index(flat, values.shape)
            kept, losses = values[place], []
            for step in (1e-6, -1e-6):
                values[place] = kept + step
                losses.append(network.gradients(pixels, labels)[0])  # type: ignore[arg-type]
            values[place] = kept
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-7, rel=1e-4), (name, place)


def test_images_show_every_class_and_augmentation_changes_only_the_view() -> None:
    drawn, labels = images.draw(600, np.random.default_rng(3))
    assert drawn.shape == (600, images.SIZE, images.SIZE) and drawn.dtype == np.uint8
    assert set(labels) == set(range(len(images.CLASSES)))
    again, _ = images.draw(600, np.random.default_rng(3))
    np.testing.assert_array_equal(drawn, again)
    plain, changed = images.normalise(drawn), images.augment(drawn, np.random.default_rng(4))
    assert plain.shape == changed.shape == (600, images.SIZE, images.SIZE, 1)
    assert plain.dtype == changed.dtype == np.float32
    assert np.abs(plain).max() <= 1
    assert not np.allclose(plain, changed)
    brightness = np.corrcoef(plain.mean(axis=(1, 2, 3)), changed.mean(axis=(1, 2, 3)))[0, 1]
    assert brightness > 0.6


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow network on few images in small batches, the same however fast this machine is: enough to learn something."""
    few = {"_LEAST_IMAGES": 512, "_MOST_IMAGES": 512, "_BATCH": 16, "_CALIBRATION_IMAGES": 16, "_CALIBRATION_S": 0.0}
    for name, value in (few | {"_LEAST_SECONDS": 0.1}).items():
        monkeypatch.setattr(trainer, name, value)
    monkeypatch.setattr(cnn, "CHANNELS", (1, 8, 16, 16))


@pytest.mark.usefixtures("small")
def test_a_short_run_learns_and_leaves_marks_that_fit_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marks = tmp_path / "marks.json"
    assert trainer.main(["--seconds", "0.1", "--marks", str(marks)]) == 0
    labels, record = read_labels(marks), json.loads(marks.read_text())
    assert labels.training and len(labels.epoch_starts) >= 5
    assert all(end <= start for end, start in zip(labels.epoch_ends[:-1], labels.epoch_starts[1:], strict=True))
    assert len(record["losses"]) == len(record["accuracies"]) == len(labels.epoch_starts)
    assert record["losses"][-1] < 0.85 * record["losses"][0]
    assert record["accuracies"][-1] > 0.2  # ten classes: guessing gives 0.1
    assert capsys.readouterr().out.count("validation accuracy") == len(labels.epoch_starts)
    with np.load(tmp_path / "marks.checkpoint.npz") as checkpoint:
        assert checkpoint["conv2.weight"].shape == (9 * cnn.CHANNELS[1], cnn.CHANNELS[2])
        assert np.abs(checkpoint["velocity/output.bias"]).max() > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["marks.checkpoint.npz", "marks.json"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seconds", "3", "--marks", "{folder}/m.json"), "--seconds is 3; give 5 to 3600"),
        (("--seconds", "nan", "--marks", "{folder}/m.json"), "--seconds is nan"),
        (("--marks", "{folder}/absent/m.json"), "there is no folder"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.main([argument.format(folder=tmp_path) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
