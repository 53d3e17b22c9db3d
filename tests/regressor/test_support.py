"""What lies outside of training: missing metrics, profiles unlike any, GPUs beyond the range."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.answers import Answers
from epochcast.regressor.features import BUSY
from epochcast.regressor.gpu_range import GpuRange
from epochcast.regressor.imputation import NormalImputer
from epochcast.regressor.intervals import ScaledInterval, half_widths
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.reliability import without_some_metrics


def unlike(profile: Profile) -> Profile:
    """Memory traffic without kernels, at a power and a clock that no training job had."""
    strange = {"gpu_utilization": 0.02, "memory_utilization": 0.99, "power": 5.0, "sm_clock": 2e8}
    metrics = {name: dict.fromkeys(values, strange[name]) | {"std": 0.0} for name, values in profile.metrics.items()}
    return replace(profile, metrics=metrics)


def test_imputer_fills_in_the_conditional_mean() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=5000)
    X = np.c_[first, 2 * first + 0.1 * rng.normal(size=5000) + 1]
    sources = np.where(np.arange(5000) % 2, "a", "b")
    X[sources == "b"] += 10
    imputer = NormalImputer.fit(X, sources)
    filled = imputer.fill(
        np.array([[1.0, np.nan], [11.0, np.nan], [np.nan, np.nan], [5.0, 6.0]]), np.array(["a", "b", "new", "a"])
    )
    assert np.allclose(filled[0], [1, 3], atol=0.15) and np.allclose(filled[1], [11, 13], atol=0.15)
    assert np.allclose(filled[2], [5, 6], atol=0.15) and filled[3].tolist() == [5, 6]


def test_without_some_metrics_keeps_an_activity_metric(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    pairs = make_pairs(made_up_profiles, catalog)
    poorer = without_some_metrics(pairs)
    for whole, less in zip(pairs, poorer, strict=True):
        assert set(less.source.metrics) < set(whole.source.metrics) and set(less.source.metrics) & set(BUSY)
    assert len({tuple(sorted(pair.source.metrics)) for pair in poorer}) == 7  # every choice of one to three of the others


def test_gpus_within_the_range_and_beyond(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    reach = GpuRange.of([catalog["T4"], catalog["V100 SXM2 16GB"]])
    profile = make_profile()
    inside, twice = Pair(profile, catalog["T4"], catalog["P100 PCIe 16GB"]), Pair(profile, catalog["T4"], catalog["H100 SXM5"])
    assert reach.beyond([inside])[0] == 0 and reach.support([inside])[0] == 1
    expected = np.log(max(catalog["H100 SXM5"].effective_flops / catalog["V100 SXM2 16GB"].effective_flops, 3.35e12 / 9e11))
    assert reach.beyond([twice])[0] == pytest.approx(expected, rel=0.02)
    assert reach.support([twice])[0] == pytest.approx(1 / (1 + reach.beyond([twice])[0] ** 2))


def test_profile_unlike_any_falls_back_to_the_speeds_says_so_and_is_less_sure(
    predictor: LatencyPredictor, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    usual, strange = make_profile("T4"), unlike(make_profile("T4"))
    near, far = (predictor.predict(profile, ["A10G"])[0] for profile in (usual, strange))
    assert near.support == 1 and far.support < 0.2
    speeds = predictor.recipe.speeds_.answer([Pair(strange, catalog["T4"], catalog["A10G"])]).log_ratio[0]
    assert abs(np.log(far.ratio) - speeds) < 0.05
    assert "the profile is unlike the training profiles" in far.why and "unlike" not in near.why
    assert np.log(far.ratio_high / far.ratio) > 3 * np.log(near.ratio_high / near.ratio)


def test_the_farther_the_gpu_the_wider_the_interval(predictor: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    names = ["A10G", "P100 PCIe 16GB", "A100 SXM4 40GB", "H100 SXM5", "B200 SXM"]
    answers = {one.gpu: one for one in predictor.predict(make_profile("T4"), names)}
    widths = [answers[name].ratio_high / answers[name].ratio for name in names]
    assert widths == sorted(widths) and len(set(widths)) == len(widths)
    assert "the data sheet of H100 SXM5 is beyond those of the GPUs with telemetry" in answers["H100 SXM5"].why
    assert "is beyond" not in answers["P100 PCIe 16GB"].why


def test_intervals_are_per_source_where_there_are_enough_errors() -> None:
    sources = np.array(["a"] * 100 + ["b"] * 100 + ["c"] * 5)
    errors = np.concatenate([np.full(100, 0.1), np.full(100, 0.3), np.full(5, 9.0)])
    one = np.ones(len(errors))
    answers = Answers(0 * one, 2 * one, one, np.full(len(errors), "route"), sources, np.full(len(errors), ""))
    interval = ScaledInterval.of_errors(errors, answers, "P2")
    # Each quantile is drawn to that of all, 0.15, which counts as a hundred errors.
    assert interval.by_source == {"a": pytest.approx((0.05 * 0.15) ** 0.5), "b": pytest.approx(0.15)}
    widths = half_widths({"route": interval}, answers)
    assert not interval.by_origin
    assert np.allclose(widths, [2 * interval.by_source.get(source, interval.multiple) for source in sources])


def test_an_origin_that_errs_less_has_narrower_intervals() -> None:
    origins = np.array(["tuned"] * 100 + ["rough"] * 100 + [""] * 5)
    sources = np.array((["a"] * 50 + ["b"] * 50) * 2 + ["a"] * 5)
    errors = np.where(origins == "tuned", 0.1, 0.3) * np.where(sources == "b", 2.0, 1.0)
    one = np.ones(len(errors))
    answers = Answers(0 * one, one, one, np.full(len(errors), "route"), sources, origins)
    interval = ScaledInterval.of_errors(errors, answers, "P2")
    assert interval.multiple == 0.6 and interval.by_origin == {"tuned": pytest.approx(1 / 3), "rough": 1.0}
    widths = half_widths({"route": interval}, answers)
    # "a" is drawn to all of both, which is b's; of no origin: as wide as all errors are, for this source.
    of_a = 0.3 ** (105 / 205) * 0.6 ** (100 / 205)
    assert np.allclose(widths, np.where(sources == "b", 0.6, of_a) * np.where(origins == "tuned", 1 / 3, 1.0))
