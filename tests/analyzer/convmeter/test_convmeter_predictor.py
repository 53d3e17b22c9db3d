"""The fitted model of a device: phases, intervals, files, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from made_points import made_points

from epochcast.analyzer.backends.convmeter.predictor import Cell, ConvNetPredictor, notes_on


def _measured(seed: int = 0, networks: int = 48) -> pd.DataFrame:
    points = made_points(networks, seed=seed)
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


def _cell(fitted: ConvNetPredictor, recipe: str = "default") -> Cell:
    return next(cell for cell in fitted.cells if cell.recipe == recipe)


def test_every_phase_is_predicted_with_an_interval_that_holds(fitted: ConvNetPredictor):
    others = _measured(seed=1)
    answer = fitted.predict(_cell(fitted), others)
    for phase in ("inference", "forward", "backward", "update"):
        seconds, low, high = answer[phase]
        truth = others[f"{phase}_seconds"]
        assert ((low <= truth) & (truth <= high)).mean() > 0.75
        assert np.median(np.abs(seconds / truth - 1)) < 0.15
    np.testing.assert_allclose(answer["step"], answer["forward"] + answer["backward"] + answer["update"])
    assert set(_cell(fitted).fits) == {"inference", "forward", "backward", "update"}  # the step is their sum
    assert set(_cell(fitted, "paper").fits) == set(answer)


def test_it_says_what_lies_outside_of_the_measured(fitted: ConvNetPredictor):
    points, cell = made_points(2), _cell(fitted)
    assert notes_on(cell, points.assign(batch=8.0)) == []
    (note,) = notes_on(cell, points.assign(batch=512.0))
    assert note == "batch 512 is outside the measured range of 1 to 64"
    (note,) = notes_on(cell, points.assign(batch=8.0, image_size=32.0))
    assert note == "image size 32 is outside the measured range of 224"
    larger = pd.concat([_measured().assign(inference_seconds=np.nan), _measured().assign(batch=512.0, update_seconds=np.nan)])
    (note,) = notes_on(_cell(ConvNetPredictor.fit(larger)), points.assign(batch=512.0))
    assert note == "update: batch 512 is outside the measured range of 1 to 64"  # of the other phases it was
    none = _measured().assign(linear_flops=0.0, attention_flops=0.0)
    half = points.assign(batch=8.0, linear_flops=points["flops"] / 4, attention_flops=points["flops"] / 4)
    (note,) = notes_on(_cell(ConvNetPredictor.fit(none)), half)
    assert note.startswith("50 % of the FLOPs are in dense layers and attention, in measured networks at most 0 %")
