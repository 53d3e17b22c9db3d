"""A fitted predictor: its range, what it says of questions beyond its rows, and its files, sound and damaged."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_occupancies import REACHES, made_chain, made_network, made_samples

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.evaluation import leave_models_out
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples
from epochcast.analyzer.backends.occupancy.predictor import Predictor
from epochcast.analyzer.backends.occupancy.reliability import Reliability
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor import load_catalog
from epochcast.regressor.model_folder import ARRAYS, MANIFEST

from ...model_forgery import forge, manifest_of

A100 = load_catalog().resolve("A100 SXM4 80GB")
NETWORKS = [f"net{number}" for number in range(12)]


@pytest.fixture(scope="module")
def data() -> LabelledSamples:
    return made_samples(NETWORKS)


@pytest.fixture(scope="module")
def nearest(data: LabelledSamples) -> Predictor:
    return Predictor.fit(data, "nearest")


def _asked(batch: int = 16, **changed: Any) -> Sample:
    return Sample(Configuration("new", batch, **changed), made_network("new").at_batch(batch), A100)


def test_rows_that_it_was_fitted_on_are_told_as_they_are(data: LabelledSamples, nearest: Predictor) -> None:
    told = nearest.predict(data.samples)
    assert told["occupancy"].to_numpy() == pytest.approx(data.points["mean"].to_numpy())
    assert (told["low"] <= told["occupancy"]).all() and (told["high"] <= 1).all()


def test_the_range_holds_nine_of_ten_rows_of_networks_that_were_left_out(data: LabelledSamples, nearest: Predictor) -> None:
    assert nearest.reliability is not None and nearest.reliability.networks == len(NETWORKS)
    new = made_samples([f"other{number}" for number in range(60)])
    told = nearest.predict(new.samples)
    inside = (told["low"] <= new.points["mean"]) & (new.points["mean"] <= told["high"])
    assert 0.8 <= inside.mean() <= 1, "networks are drawn alike, so about 90 %"
    errors = 100 * np.abs(told["occupancy"] / new.points["mean"] - 1)
    assert errors.mean() == pytest.approx(nearest.reliability.mre, rel=0.4)


def test_the_range_is_the_ninth_tenth_of_the_factors_by_which_left_out_networks_were_missed(data: LabelledSamples) -> None:
    """Written out for a predictor that tells the mean of what it was fitted on."""
    networks, labels = data.points["network"], data.points["mean"].to_numpy()
    predicted = np.empty(len(labels))
    for split in leave_models_out(data.points, 4, seed=0):
        (tested,) = split.tests.values()
        predicted[tested] = labels[~networks.isin(set(networks[tested]))].mean()
    missed = np.sort(np.maximum(labels / predicted, predicted / labels))
    told = Predictor.fit(data, "mean", folds=4).reliability
    assert told is not None and told.factor == pytest.approx(missed[math.ceil(0.9 * (len(labels) + 1)) - 1])
    assert told.mre == pytest.approx(100 * np.abs(predicted / labels - 1).mean())


def test_a_range_is_a_factor_both_ways_and_ends_where_all_warps_are_filled(data: LabelledSamples) -> None:
    predictor = Predictor.fit(data, "mean", folds=0)
    for factor in (1.25, 99.0):
        predictor.reliability = Reliability(networks=12, mre=10.0, factor=factor)
        (told,) = predictor.predict([_asked()]).to_dict("records")
        assert told["low"] == pytest.approx(told["occupancy"] / factor)
        assert told["high"] == pytest.approx(min(told["occupancy"] * factor, 1.0))


def test_without_folds_or_with_two_networks_there_is_no_range(data: LabelledSamples) -> None:
    for predictor in (
        Predictor.fit(data, "mean", folds=0),
        Predictor.fit(made_samples(["a", "b"]), "mean"),
    ):
        assert predictor.reliability is None
        told = predictor.predict([_asked()])
        assert told["occupancy"].notna().all() and told[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("model", "target", "folds"), [("mean", "max", 2), ("nearest", "time_mean", 3), ("boosting", "mean", 0)]
)
def test_what_is_saved_answers_the_same(data: LabelledSamples, model: str, target: str, folds: int, tmp_path: Path) -> None:
    one = Predictor.fit(data, model, target, {"seed": 3, "epochs": 2}, folds)
    one.save(tmp_path / "model")
    other = Predictor.load(tmp_path / "model")
    for name in ("model", "target", "labels", "settings", "fitted_on", "reliability"):
        assert getattr(other, name) == getattr(one, name), name
    asked = [*data.samples[:9], _asked(), _asked(256)]
    assert other.predict(asked).equals(one.predict(asked)) and other.notes(asked) == one.notes(asked)


def test_the_kind_of_labels_and_the_rows_go_with_it(data: LabelledSamples, tmp_path: Path) -> None:
    modelled = LabelledSamples(data.points.assign(labels="modelled"), data.samples, {}, 0)
    Predictor.fit(modelled, "mean", folds=0).save(tmp_path)
    kept = Predictor.load(tmp_path)
    assert kept.labels == "modelled" and kept.fitted_on.networks == dict.fromkeys(NETWORKS, 4)
    assert kept.fitted_on.gpus == ("A100 SXM4 80GB",) and kept.fitted_on.ranges["batch"] == (4, 128)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (
            Sample(Configuration("new", 16), made_network("new").at_batch(16), load_catalog().resolve("T4")),
            "of T4 was fitted on",
        ),
        (_asked(precision="fp16"), "at fp16 was fitted on"),
        (_asked(batch=1024), "batch 1024 lies outside of what was fitted on, 4 to 128"),
        (Sample(Configuration("new", 16), made_chain("new", ["gru"] * 3 + ["relu"] * 9), A100), "fitted on has gru (25 % of"),
        (Sample(Configuration("new", 16), made_chain("new", ["relu"] * 20, unknown={"fft": 2}), A100), "one unknown kind: fft"),
        (Sample(Configuration("new", 16), made_chain("new", ["relu"] * 999), A100), "nodes 999 lies outside"),
    ],
)
def test_what_lies_beyond_its_rows_is_told(nearest: Predictor, sample: Sample, said: str) -> None:
    notes = nearest.notes([sample])
    assert any(said in note for note in notes), notes


def test_what_lies_within_its_rows_needs_no_note(data: LabelledSamples, nearest: Predictor) -> None:
    assert nearest.notes(data.samples) == []
    inside = replace(data.samples[1], configuration=replace(data.samples[1].configuration, network="like it"))
    assert nearest.notes([inside]) == []
    assert set(nearest.fitted_on.words) <= set(REACHES)


def _edited(folder: Path, **changed: Any) -> None:
    forge(folder, manifest_of(folder) | changed)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), "epochcast train occupancy"),
        (lambda folder: (folder / MANIFEST).write_text("[]"), "train it anew with `epochcast train occupancy`"),
        (lambda folder: _edited(folder, schema="epochcast.occupancy/v1"), "epochcast.occupancy/v2"),
        (lambda folder: _edited(folder, features="0", epochcast="0.0.9"), "fitted by epochcast 0.0.9 on other features"),
        (lambda folder: _edited(folder, labels="guessed"), "labels"),
        (lambda folder: _edited(folder, fitted_on={"rows": 3}), "fitted_on.networks"),
        (lambda folder: _edited(folder, state={}), "KeyError"),
        (lambda folder: _edited(folder, model="oracle"), "unknown model 'oracle'"),
        (lambda folder: _edited(folder, settings={"depth": 3}), "depth"),
        (lambda folder: _edited(folder, extra=1), "extra"),
        (lambda folder: (folder / ARRAYS).unlink(), ARRAYS),
    ],
)
def test_a_damaged_folder_is_one_sentence(data: LabelledSamples, damage: Any, said: str, tmp_path: Path) -> None:
    Predictor.fit(data, "nearest", folds=0).save(tmp_path)
    damage(tmp_path)
    with pytest.raises((InputError, RegressorInputError)) as caught:
        Predictor.load(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_one_sentence(data: LabelledSamples, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegressorInputError, match="name another"):
        Predictor.fit(data, "mean", folds=0).save(tmp_path / "file" / "model")


def test_an_occupancy_of_zero_has_no_relative_error(data: LabelledSamples) -> None:
    points = data.points.assign(mean=data.points["mean"].where(data.points.index != 5, 0.0))
    with pytest.raises(InputError, match=r"net1 at batch 16 .* has mean occupancy 0"):
        Predictor.fit(LabelledSamples(points, data.samples, {}, 0), "mean")
