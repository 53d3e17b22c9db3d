"""The fitted model of a device: phases, intervals, files, and what it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_points import made_points

from epochcast.analyzer.backends.convmeter.points import TIMES
from epochcast.analyzer.backends.convmeter.predictor import ConvNetPredictor
from epochcast.analyzer.errors import InputError
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor.model_folder import ARRAYS, MANIFEST
from lab.rivals.convmeter import fit_predict


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


def test_what_took_no_time_was_not_measured():
    points = _measured()
    points.loc[:9, "inference_seconds"] = 0.0
    assert ConvNetPredictor.fit(points, "relative").cell("made", "fp32").fits["inference"].points == 38


def test_devices_and_precisions_are_fitted_apart():
    fast = _measured().assign(**dict.fromkeys(TIMES[1:], np.nan))
    slow = fast.assign(precision="fp64", inference_seconds=10 * fast["inference_seconds"])
    predictor = ConvNetPredictor.fit(pd.concat([fast, slow], ignore_index=True))
    ratio = [
        predictor.predict(_measured(), "made", precision)["inference_seconds"].to_numpy() for precision in ("fp64", "fp32")
    ]
    np.testing.assert_allclose(ratio[0] / ratio[1], 10, rtol=1e-3)
    with pytest.raises(InputError, match="not fitted for other at fp32; it has made at fp32; made at fp64"):
        predictor.predict(_measured(), "other", "fp32")


def test_the_mape_told_is_of_families_left_out(fitted: ConvNetPredictor):
    fit = fitted.cell("made", "fp32").fits["inference"]
    assert 4 < fit.mape < 20  # the noise alone makes 8 %
    assert fit.factor > 1.1
    assert (fit.points, fit.networks) == (48, 48)
    rich = ConvNetPredictor.fit(_measured().head(24), "layers").cell("made", "fp32").fits["inference"]
    within = fit_predict(_measured().head(24), _measured().head(24), "inference", "layers")
    assert rich.mape > 1.5 * 100 * np.abs(within / _measured()["inference_seconds"].head(24) - 1).mean()
    exact = ConvNetPredictor.fit(_measured(), "paper").cell("made", "fp32").fits["update"]
    assert exact.mape > fitted.cell("made", "fp32").fits["update"].mape  # the weights take the time, not the layers


def test_saved_and_loaded_it_predicts_the_same(fitted: ConvNetPredictor, tmp_path: Path):
    fitted.save(tmp_path / "model")
    again = ConvNetPredictor.load(tmp_path / "model")
    pd.testing.assert_frame_equal(
        again.predict(_measured(), "made", "fp32"), fitted.predict(_measured(), "made", "fp32"), rtol=1e-12
    )
    assert again.cells == fitted.cells


def test_several_devices_need_points_on_several(fitted: ConvNetPredictor):
    with pytest.raises(InputError, match="step on several devices cannot be predicted"):
        ConvNetPredictor.fit(_measured().assign(update_seconds=np.nan), "relative").predict(
            _measured(devices=4), "made", "fp32"
        )
    both = pd.concat([_measured(), _measured(seed=2, devices=4)], ignore_index=True)
    answer = ConvNetPredictor.fit(both).predict(_measured(devices=4), "made", "fp32")
    assert np.isfinite(answer["step_seconds"]).all()
    with pytest.raises(InputError, match="step on several nodes cannot be predicted"):
        ConvNetPredictor.fit(both.assign(update_seconds=np.nan), "pooled").predict(
            _measured(devices=4).assign(nodes=2.0), "made", "fp32"
        )


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


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), "train one with `epochcast fit convmeter`"),
        (lambda folder: (folder / MANIFEST).write_text('{"schema": "other"}'), "this version reads 'epochcast.convmeter/v3'"),
        (lambda folder: (folder / ARRAYS).write_bytes(b""), "was changed after training"),
    ],
)
def test_broken_files_are_one_sentence(tmp_path: Path, fitted: ConvNetPredictor, damage: Callable[[Path], object], said: str):
    fitted.save(tmp_path)
    damage(tmp_path)
    with pytest.raises((InputError, RegressorInputError), match=said) as caught:
        ConvNetPredictor.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_fewer_than_nine_errors_give_no_interval():
    few = ConvNetPredictor.fit(_measured().head(8))  # a family each
    fit = few.cell("made", "fp32").fits["step"]
    assert np.isfinite(fit.mape)
    assert np.isnan(fit.factor)
    answer = few.predict(_measured(seed=1), "made", "fp32")
    assert answer[["step_low", "step_high"]].isna().all(axis=None)
    assert np.isfinite(answer["step_seconds"]).all()
    nine = ConvNetPredictor.fit(_measured().head(9)).cell("made", "fp32").fits["step"]
    assert np.isfinite(nine.factor)


def test_no_phase_or_too_few_points_are_refused():
    with pytest.raises(InputError, match="no point has a measured phase"):
        ConvNetPredictor.fit(made_points())
    with pytest.raises(InputError, match=r"made at fp32: .*too few"):
        ConvNetPredictor.fit(_measured().head(2))


def test_a_phase_with_too_few_points_is_told_while_the_others_are_fitted():
    points = _measured().assign(forward_seconds=np.nan, backward_seconds=np.nan)
    points.loc[2:, "update_seconds"] = np.nan
    predictor = ConvNetPredictor.fit(points)
    assert set(predictor.cells[0].fits) == {"inference", "step"}
    (sentence,) = predictor.unfitted
    assert sentence.startswith("made at fp32: 2 points of the update are too few")


def test_the_fit_of_an_evaluation_sees_its_training_points_alone():
    train, test = _measured(), _measured(seed=7)
    blind = test.assign(**{name: np.nan for name in test if name.endswith("_seconds")})
    for form in ("default", "paper", "boosting"):
        np.testing.assert_array_equal(fit_predict(train, test, "step", form), fit_predict(train, blind, "step", form))
