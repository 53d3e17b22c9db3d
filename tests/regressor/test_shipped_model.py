"""The model that a fresh clone predicts with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.model_folder import fingerprint
from epochcast.regressor.pairs import make_pairs, target_seconds
from epochcast.regressor.predictor import SHIPPED
from epochcast.regressor.profile_json import profile_json
from epochcast.regressor.scoring import score
from lab.corpora import load_corpus


def test_is_small_and_predicts_for_every_gpu(
    shipped: LatencyPredictor, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 5_000_000
    predictions = shipped.predict(make_profile("V100 SXM2 16GB", busy=0.9, epoch_s=20.0))
    assert {one.gpu for one in predictions} == set(catalog)
    ratios = {one.gpu: one.ratio for one in predictions}
    assert ratios["K80"] > ratios["T4"] > 1 > ratios["H100 SXM5"]


def test_says_how_accurate_it_is(shipped: LatencyPredictor) -> None:
    """Of left-out families and GPUs, in all of the data: 1090 pairs of CNNs with telemetry, 8212 of rates."""
    accuracy = shipped.accuracy
    assert {figures["n"] for figures in accuracy.values()} == {9302}
    assert accuracy["P3"]["mape"] <= 21 and accuracy["P4"]["mape"] <= 18


def test_is_what_training_on_the_public_files_gives(
    shipped: LatencyPredictor, public_profiles: list[Profile], rates: list[Profile], shared_data: Path
) -> None:
    more = load_corpus(shared_data / "cross_gpu" / "rates_2.csv.gz")
    assert shipped.training["fingerprint"] == fingerprint(
        [profile_json(profile) for profile in [*public_profiles, *rates, *more]]
    )
    pairs = make_pairs(public_profiles, shipped.catalog)
    assert set(shipped.recipe.answer(pairs).routes) == {"telemetry"}
    assert score(target_seconds(pairs), shipped.recipe.predict(pairs)).mape < 5


def test_more_than_ten_percent_better_is_faster(shipped: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    """The order of the data sheets, where they are clear, for jobs of any type."""
    for stated in ({}, {"type": "llm"}, {"type": "cnn", "precision": "mixed"}, {"type": "llm", "precision": "fp8"}):
        job = make_profile("A100 SXM4 80GB", metrics={}, feature_set="none", **stated)
        ratios = {one.gpu: one.ratio for one in shipped.predict(job)}
        order = ["B200 SXM", "H200 SXM", "A100 SXM4 80GB", "A100 SXM4 40GB"]
        assert [ratios[gpu] for gpu in order] == sorted(ratios[gpu] for gpu in order)
        assert ratios["GB200"] < ratios["H100 SXM5"] < 1


def test_a_small_network_may_gain_little(shipped: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    """A DenseNet at batch 12 takes 1.1 to 1.2 times as long on an RTX 2080 Ti, a VGG three times; a step tells neither."""
    job = make_profile(
        "A100 SXM4 40GB", metrics={}, feature_set="none", epoch_s=0.03, unit="step", type="cnn", precision="tf32"
    )
    unknown, named = (shipped.predict(replace(job, group=group), ["RTX 2080 Ti"])[0] for group in (None, "densenet121"))
    assert unknown.ratio_low < 1.2 and unknown.ratio_high > 3 and "launches" in unknown.why
    assert named.ratio_high < 2 and "launches" not in named.why


def test_there_and_back_never_contradict(shipped: LatencyPredictor, public_profiles: list[Profile]) -> None:
    """Of jobs that were recorded on both GPUs, each has telemetry of its own: no GPU is called slower from either side."""
    pairs = make_pairs(public_profiles, shipped.catalog)
    ratio = {
        (pair.source.workload, *pair.gpus): answer
        for pair, answer in zip(pairs, shipped.recipe.answer(pairs).log_ratio, strict=True)
    }
    both = np.array(
        [(there, ratio[job, back, here]) for (job, here, back), there in ratio.items() if (job, back, here) in ratio]
    )
    assert len(both) == 1090 and np.abs(both.sum(axis=1)).max() < 0.25
    assert (np.where(both[:, 0] * both[:, 1] > 0, np.abs(both).min(axis=1), 0.0) < 0.02).all()


@pytest.mark.parametrize("changes", [{}, {"metrics": {}, "feature_set": "none"}])
def test_every_gpu_that_was_never_measured_says_so(
    shipped: LatencyPredictor, make_profile: Callable[..., Profile], changes: dict[str, Any]
) -> None:
    answers = shipped.predict(make_profile("T4", precision="mixed", **changes))
    new = {gpu.name for gpu in shipped.catalog.values() if not shipped.recipe.ridge_.knows(gpu)}
    assert {"GB300", "H100 NVL", "H20 SXM", "MI300X", "RTX 5090"} <= new
    for answer in answers:
        assert (answer.gpu in new) == answer.why.startswith(f"nothing was measured on {answer.gpu}: data sheets")
        foreign = shipped.catalog[answer.gpu].vendor != "NVIDIA"
        assert foreign == ("another vendor's software, with which nothing was measured" in answer.why)
