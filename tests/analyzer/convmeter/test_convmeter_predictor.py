"""The fitted model of a device: phases, intervals, files, and what it refuses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_points import made_points

from epochcast.analyzer.backends.convmeter.predictor import ConvNetPredictor


def _measured(seed: int = 0, devices: int = 1) -> pd.DataFrame:
    points = made_points(48, seed=seed, devices=devices)
    noise = np.random.default_rng(seed).lognormal(0, 0.1, len(points))
    passes = points["batch"] * (2e-14 * points["flops"] + 3e-12 * (points["conv_inputs"] + points["conv_outputs"])) + 1e-3
    points["inference_seconds"] = points["forward_seconds"] = passes * noise
    points["backward_seconds"] = 2 * passes * noise
    points["update_seconds"] = 1e-10 * points["weights"] + 1e-4
    points["step_seconds"] = points[["forward_seconds", "backward_seconds", "update_seconds"]].sum(axis=1)
    return points


@pytest.fixture(scope="module")
def fitted() -> ConvNetPredictor:
    return ConvNetPredictor.fit(_measured())


def test_every_phase_is_predicted_with_an_interval_that_holds(fitted: ConvNetPredictor):
    others = _measured(seed=1)
    answer = fitted.predict(others, "made", "fp32")
    for phase in ("inference", "forward", "backward", "update", "step"):
        truth = others[f"{phase}_seconds"]
        held = (answer[f"{phase}_low"] <= truth) & (truth <= answer[f"{phase}_high"])
        assert held.mean() > 0.75
        assert np.median(np.abs(answer[f"{phase}_seconds"] / truth - 1)) < 0.15


def test_a_step_that_was_not_measured_is_the_sum_of_its_phases():
    points = _measured().assign(step_seconds=np.nan)
    answer = ConvNetPredictor.fit(points, "relative").predict(points, "made", "fp32")
    parts = sum(answer[f"{phase}_seconds"] for phase in ("forward", "backward", "update"))
    np.testing.assert_allclose(answer["step_seconds"], parts)
    for end in ("low", "high"):
        np.testing.assert_allclose(
            answer[f"step_{end}"], sum(answer[f"{phase}_{end}"] for phase in ("forward", "backward", "update"))
        )


def test_saved_and_loaded_it_predicts_the_same(fitted: ConvNetPredictor, tmp_path: Path):
    fitted.save(tmp_path / "model")
    again = ConvNetPredictor.load(tmp_path / "model")
    pd.testing.assert_frame_equal(
        again.predict(_measured(), "made", "fp32"), fitted.predict(_measured(), "made", "fp32"), rtol=1e-12
    )
    assert again.cells == fitted.cells


def test_it_says_what_lies_outside_of_the_measured(fitted: ConvNetPredictor):
    points = made_points(2)
    assert fitted.notes(points.assign(batch=8.0), "made", "fp32") == []
    (note,) = fitted.notes(points.assign(batch=512.0), "made", "fp32")
    assert note == "batch 512 is outside the measured range of 1 to 64"
    (note,) = fitted.notes(points.assign(batch=8.0, image_size=32.0), "made", "fp32")
    assert note == "image size 32 is outside the measured range of 224 to 224"
    larger = pd.concat([_measured().assign(inference_seconds=np.nan), _measured().assign(batch=512.0, step_seconds=np.nan)])
    (note,) = ConvNetPredictor.fit(larger, "relative").notes(points.assign(batch=512.0), "made", "fp32")
    assert note == "step: batch 512 is outside the measured range of 1 to 64"  # of the other phases it was
    (note,) = fitted.notes(points.assign(batch=8.0, conv_outputs=0.0), "made", "fp32")
    assert "no convolution" in note
    none = _measured().assign(linear_flops=0.0, attention_flops=0.0)
    half = points.assign(batch=8.0, linear_flops=points["flops"] / 4, attention_flops=points["flops"] / 4)
    (note,) = ConvNetPredictor.fit(none, "paper").notes(half, "made", "fp32")
    assert note.startswith("50 % of the FLOPs are in dense layers and attention, in measured networks at most 0 %")
    (note,) = fitted.notes(points.assign(batch=8.0, block="layer1.0"), "made", "fp32")
    assert "no block was measured" in note
    of_blocks = ConvNetPredictor.fit(_measured().assign(block="layer1.0"), "paper")
    assert of_blocks.notes(points.assign(batch=8.0, block="layer1.0"), "made", "fp32") == []
