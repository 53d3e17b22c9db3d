from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, LatencyPredictor, Prediction, Profile
from epochcast.regressor.intervals import half_widths
from epochcast.regressor.pairs import make_pairs, target_seconds
from epochcast.regressor.profile import STATISTICS
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.recipes.default import TYPE_UNKNOWN


@pytest.fixture
def saved(tmp_path: Path, predictor: LatencyPredictor) -> Path:
    predictor.save(tmp_path / "model")
    return tmp_path / "model"


def by_gpu(predictions: list[Prediction]) -> dict[str, Prediction]:
    return {prediction.gpu: prediction for prediction in predictions}


def test_every_gpu_fastest_first(predictor: LatencyPredictor, catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    predictions = predictor.predict(make_profile("g4dn", epoch_s=10.0))
    assert {prediction.gpu for prediction in predictions} == set(catalog)
    assert [one.ratio for one in predictions] == sorted(one.ratio for one in predictions)
    for one in predictions:
        assert one.seconds is not None and one.low is not None and one.high is not None
        assert one.seconds == pytest.approx(10 * one.ratio)
        assert one.low <= one.seconds <= one.high
    same = by_gpu(predictions)["T4"]
    assert (same.ratio, same.seconds, same.low, same.high, same.route) == (1.0, 10.0, 10.0, 10.0, "measured")


def test_chosen_targets_by_any_name(predictor: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    predictions = predictor.predict(make_profile("T4"), ["g5", "NVIDIA A10G", "h100 sxm5"])
    assert {one.gpu for one in predictions} == {"A10G", "H100 SXM5"}
    assert [one.gpu for one in predictor.predict(make_profile("T4"), ["T4"])] == ["T4"]
    with pytest.raises(InputError, match="ambiguous"):
        predictor.predict(make_profile("T4"), ["V100"])
    with pytest.raises(InputError, match="unknown GPU"):
        predictor.predict(make_profile("no such card"))


def test_why_says_what_the_answer_rests_on(predictor: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    whole = make_profile("T4", epoch_s=None, simulated=True)
    known, new = (by_gpu(predictor.predict(whole))[gpu] for gpu in ("A10G", "RTX A5500"))
    assert known.why.startswith("jobs like this one between these GPUs: 24 workloads with telemetry; ")
    assert "interval from jobs left out of training" in known.why and "its type is not known" in known.why
    assert new.why.startswith("nothing was measured on RTX A5500: data sheets, with weights fitted to other GPUs, ")
    assert "and telemetry of jobs on A10G, T4, V100 SXM2 16GB; " in new.why
    assert "interval from GPUs left out of training" in new.why
    assert "unverified: fp16_tensor_flops, tf32_tensor_flops" in new.why and "unverified" not in known.why
    for one in (known, new):
        assert one.seconds is one.low is one.high is None
        assert "no epoch or step was found" in one.why and one.why.endswith("the telemetry is simulated")
    assert known.features == tuple(sorted(whole.metrics))
    stated = replace(whole, metrics={}, type="cnn", group="ResNet-50", inference=True)
    bare = predictor.predict(stated, ["A10G"])[0]
    assert bare.why.startswith("other jobs between these GPUs: 4 families of networks; taken for inference by a cnn, fam")
    assert bare.features == ()


def test_intervals_widen_with_less_evidence(predictor: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    whole = make_profile("T4")
    bare = replace(whole, metrics={}, feature_set="none")
    predictions = [
        predictor.predict(profile, [gpu])[0] for profile, gpu in ((whole, "A10G"), (bare, "A10G"), (bare, "H100 SXM5"))
    ]
    assert [one.route for one in predictions] == ["telemetry", "speeds", "specifications"]
    widths = [one.ratio_high / one.ratio for one in predictions]
    assert widths == sorted(widths)
    protocols = {cell: interval.protocol for cell, interval in predictor.intervals.items()}
    assert protocols["telemetry"] == protocols["speeds"] == "P3" and protocols["specifications"] == "P4"
    assert set(protocols) == {
        "telemetry",
        *(f"{of}{end}" for of in ("speeds", "specifications", "both new") for end in ("", TYPE_UNKNOWN)),
    }
    assert set(predictor.accuracy) == {"P3", "P4"}


def test_intervals_hold_nine_in_ten_new_workloads(predictor: LatencyPredictor, make_up: Callable[..., list[Profile]]) -> None:
    """On average over training sets; a single one of 24 workloads gives anything from 0.82 to 0.97."""
    pairs = make_pairs(make_up(100, seed=1), predictor.catalog)
    inside = []
    for fitted in (
        predictor,
        *(LatencyPredictor.fit(make_up(24, seed), predictor.catalog, DefaultRecipe(iterations=5)) for seed in (2, 3)),
    ):
        errors = np.abs(np.log(fitted.recipe.predict(pairs) / target_seconds(pairs)))
        inside.append(np.mean(errors <= half_widths(fitted.intervals, fitted.recipe.answer(pairs))))
    assert 0.85 <= np.mean(inside) <= 0.97


def test_few_gpus_and_groups_still_train(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    two = [replace(profile, group=None) for profile in made_up_profiles if profile.gpu != "A10G"]
    fitted = LatencyPredictor.fit(two, catalog, DefaultRecipe(iterations=5))
    assert set(fitted.accuracy) == {"P2"} and {of.protocol for of in fitted.intervals.values()} == {"P2"}
    with pytest.raises(InputError, match=r"needs 5$"):
        LatencyPredictor.fit(two[:8], catalog)


def test_saved_model_answers_alike_and_is_the_same_bytes(
    tmp_path: Path,
    saved: Path,
    predictor: LatencyPredictor,
    made_up_profiles: list[Profile],
    make_profile: Callable[..., Profile],
) -> None:
    again = LatencyPredictor.load(saved)
    assert again.predict(make_profile()) == predictor.predict(make_profile())
    assert (again.accuracy, again.intervals, again.training) == (predictor.accuracy, predictor.intervals, predictor.training)
    LatencyPredictor.fit(made_up_profiles, predictor.catalog, DefaultRecipe(iterations=20)).save(tmp_path / "second")
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "second").iterdir()
    }


def test_loading_never_unpickles(saved: Path, monkeypatch: pytest.MonkeyPatch, make_profile: Callable[..., Profile]) -> None:
    import pickle

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    assert LatencyPredictor.load(saved).predict(make_profile())


def test_a_precision_that_is_not_known_is_said_with_what_knowing_it_would_change(
    predictor: LatencyPredictor, make_profile: Callable[..., Profile]
) -> None:
    known, unknown = (predictor.predict(make_profile("T4", precision=of), ["H100 SXM5"])[0] for of in ("mixed", None))
    assert not known.by_precision and "precision" not in known.why
    assert set(unknown.by_precision) == {"tf32", "mixed"}
    for precision, ratio in unknown.by_precision.items():
        alone = predictor.predict(make_profile("T4", precision=precision), ["H100 SXM5"])[0]
        assert ratio == pytest.approx(alone.ratio)
        assert f"{ratio:.2f}x in " in unknown.why


def test_metrics_that_show_the_precision_are_named_among_those_used(
    predictor: LatencyPredictor, make_profile: Callable[..., Profile]
) -> None:
    plain = make_profile("V100 SXM2 16GB", metrics={}, feature_set="none")
    recorded = replace(plain, metrics=plain.metrics | {"tensor_active": dict.fromkeys(STATISTICS, 0.65) | {"std": 0.0}})
    recorded = replace(recorded, feature_set="dcgm")
    without, with_it = (predictor.predict(profile, ["H100 SXM5"])[0] for profile in (plain, recorded))
    assert "tensor_active" in with_it.features and "tensor_active" not in without.features
    assert with_it.ratio != without.ratio and not with_it.by_precision
