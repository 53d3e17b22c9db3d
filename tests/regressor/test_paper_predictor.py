"""The paper's stack as a predictor: kept in a folder, asked on every GPU, and refused where it cannot answer."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, PaperPredictor, Profile
from epochcast.regressor.features import paper_features
from epochcast.regressor.pairs import make_pairs, target_seconds
from epochcast.regressor.recipes import PaperRecipe

SMALL = PaperRecipe(trees=4, iterations=10, cv=3)


@pytest.fixture(scope="module")
def fitted(made_up_profiles: list[Profile], catalog: Catalog) -> PaperPredictor:
    with joblib.parallel_config("threading"):
        return PaperPredictor.fit(made_up_profiles, catalog, SMALL)


@pytest.fixture(scope="module")
def kept(fitted: PaperPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper") / "model"
    fitted.save(folder)
    return folder


@pytest.fixture
def model(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "model"))


def test_the_parts_answer_as_scikit_learn_s_stack_does(
    model: Path, made_up_profiles: list[Profile], catalog: Catalog, in_threads: None
) -> None:
    pairs = make_pairs(made_up_profiles, catalog)
    loaded = PaperPredictor.load(model, catalog).recipe
    X = paper_features(pairs)[loaded.columns_].to_numpy()
    whole = SMALL._regressor().fit(X, target_seconds(pairs))
    np.testing.assert_allclose(loaded.predict(pairs), whole.predict(X), rtol=1e-12)


def test_intervals_hold_what_was_left_out(fitted: PaperPredictor) -> None:
    assert [(name, one.protocol) for name, one in fitted.intervals.items()] == [("stack", "P3"), ("new-gpu", "P4")]
    assert fitted.intervals["stack"].n == 144 and fitted.intervals["new-gpu"].n == 288  # into the new GPU, and out of it
    assert fitted.accuracy["P3"]["n"] == fitted.accuracy["P4"]["n"] == 144 == fitted.training["pairs"]


def test_beyond_the_training_s_epochs_no_interval_is_claimed(
    fitted: PaperPredictor, make_profile: Callable[..., Profile]
) -> None:
    hours = make_profile("T4", epoch_s=3600.0)
    (answer,) = fitted.predict(hours, ["A10G"])
    assert answer.support == 0 and answer.seconds is not None and answer.seconds < fitted.recipe.seconds_[1]
    assert "3600 s are outside its training range" in answer.why and "so no interval is valid" in fitted.note(hours)
    assert "interval is valid" not in fitted.note(make_profile("T4"))


def test_what_it_cannot_answer_is_refused(fitted: PaperPredictor, make_profile: Callable[..., Profile]) -> None:
    profile = make_profile("T4", metrics={"power": make_profile().metrics["power"]}, feature_set="none")
    with pytest.raises(
        InputError, match=r"^the profile lacks gpu_utilization, memory_utilization, which the model .*'default'"
    ):
        fitted.predict(profile)
    with pytest.raises(InputError, match=r"^the profile lacks epoch seconds, which"):
        fitted.predict(make_profile("T4", epoch_s=None))
    with pytest.raises(InputError, match="unknown GPU"):
        fitted.predict(make_profile("T4"), ["abacus"])


def test_data_too_few_for_models_and_gpus_still_have_an_interval(
    made_up_profiles: list[Profile], catalog: Catalog, in_threads: None, tmp_path: Path
) -> None:
    two = [replace(one, group=None) for one in made_up_profiles if one.gpu != "A10G"]
    fitted = PaperPredictor.fit(two, catalog, SMALL)
    assert list(fitted.accuracy) == ["P2"] and fitted.intervals["new-gpu"] == fitted.intervals["stack"]
    fitted.save(tmp_path / "m")
    with pytest.raises(InputError, match="protocol P2, which training also uses, needs 5"):
        PaperPredictor.fit(two[:6], catalog, SMALL)
