"""The model that a fresh clone predicts with."""

from collections.abc import Callable

import numpy as np
import pytest

from epochcast.regressor import Catalog, Predictor, Profile
from epochcast.regressor.model_files import SHIPPED, fingerprint
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from epochcast.regressor.scoring import score


@pytest.fixture(scope="module")
def shipped() -> Predictor:
    return Predictor.load()


def test_is_small_and_predicts_for_every_gpu(
    shipped: Predictor, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 5_000_000
    predictions = shipped.predict(make_profile("V100 SXM2 16GB", busy=0.9, epoch_s=20.0))
    assert {one.gpu for one in predictions} == set(catalog)
    ratios = {one.gpu: one.ratio for one in predictions}
    assert ratios["K80"] > ratios["T4"] > 1 > ratios["H100 SXM5"]


def test_says_how_accurate_it_is(shipped: Predictor) -> None:
    """The figures come from folds that the fit left out, so they stand above those on its own training rows."""
    assert {name: figures["n"] for name, figures in shipped.reliability.accuracy.items()} == {
        "P2": 1090,
        "P3": 1090,
        "P4": 1090,
    }
    mape = {name: figures["mape"] for name, figures in shipped.reliability.accuracy.items()}
    assert mape["P2"] <= 5.3 and mape["P3"] <= 7.4 and mape["P4"] <= 10.5
    assert mape["P2"] < mape["P3"] < mape["P4"]


def test_is_what_training_on_the_public_file_gives(shipped: Predictor, public_profiles: list[Profile]) -> None:
    assert shipped.training["fingerprint"] == fingerprint([profile.to_json() for profile in public_profiles])
    pairs = make_pairs(public_profiles, shipped.catalog)
    assert set(shipped.recipe.answer(pairs).routes) == {"ensemble"}
    fit = score(target_seconds(pairs), shipped.recipe.predict(pairs)).mape
    assert fit < shipped.reliability.accuracy["P2"]["mape"]


def test_ratios_there_and_back_nearly_cancel(
    shipped: Predictor, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """A busy GPU-bound job: T4 to a V100 and back again is about where it started."""
    t4, v100 = catalog["T4"], catalog["V100 SXM2 16GB"]
    there = shipped.recipe.answer([Pair(make_profile("T4", busy=0.95), t4, v100)])
    back = shipped.recipe.answer([Pair(make_profile("V100 SXM2 16GB", busy=0.8), v100, t4)])
    assert np.allclose(there.log_ratio, -back.log_ratio, atol=0.35)
