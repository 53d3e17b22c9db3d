"""Shapley values: against a loop over all orders, and by their axioms."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.explain import DATA_SHEETS, REST, effects, explain, shapley_values
from epochcast.regressor.pairs import Pair
from epochcast.regressor.profile import DCGM_METRICS, STATISTICS
from epochcast.regressor.typical import typical_by_gpu, typical_metrics

METRICS = ("gpu_utilization", "memory_utilization", "power", "sm_clock")


def values_of_all_orders(values: np.ndarray) -> np.ndarray:
    n = len(values).bit_length() - 1
    orders = list(permutations(range(n)))
    shares = np.zeros(n)
    for order in orders:
        there = 0
        for player in order:
            shares[player] += values[there | 1 << player] - values[there]
            there |= 1 << player
    return shares / len(orders)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_equals_the_mean_over_all_orders_and_sums_to_the_whole(n: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=2**n)
    shares = shapley_values(values)
    assert np.allclose(shares, values_of_all_orders(values), atol=1e-12)
    assert shares.sum() == pytest.approx(values[-1] - values[0], abs=1e-12)


def test_a_dummy_gets_nothing_and_equals_get_the_same() -> None:
    players = np.arange(8)
    first, second, third = players & 1, players >> 1 & 1, players >> 2 & 1
    assert shapley_values(3.0 * first + 0.0 * second + first * third) == pytest.approx([3.5, 0.0, 0.5])
    assert shapley_values((first & second & third).astype(float)) == pytest.approx([1 / 3] * 3)


class MeanRecipe:
    """Log ratio: a constant per target, a share of two means and their product; the clock plays no part."""

    def answer(self, pairs: Sequence[Pair]) -> SimpleNamespace:
        def log_ratio(pair: Pair) -> float:
            gpu, power = (pair.source.metrics[name]["mean"] for name in ("gpu_utilization", "power"))
            return -0.5 + 2 * gpu - power / 100 + gpu * power / 50

        return SimpleNamespace(log_ratio=np.array([log_ratio(pair) for pair in pairs]))


def test_effects_multiply_to_the_ratio(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    job, usual = make_profile("T4", busy=0.4), make_profile("T4", busy=0.9)
    pair = Pair(job, catalog["T4"], catalog["A10G"])
    parts = {one.name: one for one in effects(MeanRecipe(), pair, METRICS, usual.metrics)}
    ratio, baseline = np.exp(MeanRecipe().answer([pair, Pair(usual, catalog["T4"], catalog["A10G"])]).log_ratio)
    assert np.prod([one.factor for one in parts.values()]) == pytest.approx(ratio, rel=1e-12)
    assert parts[DATA_SHEETS].factor == pytest.approx(baseline)
    assert parts["sm_clock"].factor == parts["memory_utilization"].factor == 1.0
    assert parts["gpu_utilization"].factor == pytest.approx(np.exp(2 * (0.4 - 0.9) + (0.4 - 0.9) * 60 / 50))
    found = parts["gpu_utilization"]
    assert (found.value, found.typical, found.unit) == (0.4, 0.9, "ratio")
    assert (parts["power"].unit, parts["sm_clock"].unit) == ("W", "Hz")


def test_largest_first_and_unknown_metrics_left_alone(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    pair = Pair(make_profile("T4", busy=0.4), catalog["T4"], catalog["A10G"])
    usual = make_profile("T4", busy=0.9).metrics
    parts = effects(MeanRecipe(), pair, METRICS, {"gpu_utilization": usual["gpu_utilization"]})
    assert [one.name for one in parts] == [DATA_SHEETS, "gpu_utilization"]
    assert np.prod([one.factor for one in parts]) == pytest.approx(np.exp(MeanRecipe().answer([pair]).log_ratio[0]))
    assert [one.name for one in effects(MeanRecipe(), pair, METRICS, {})] == [DATA_SHEETS]


def test_many_metrics_leave_the_smallest_together(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    names = DCGM_METRICS[:11]

    class Sum:
        def answer(self, pairs: Sequence[Pair]) -> SimpleNamespace:
            means = [[pair.source.metrics[name]["mean"] for name in names] for pair in pairs]
            return SimpleNamespace(log_ratio=np.array(means) @ np.arange(1.0, 12.0))

    def job(mean: float) -> Profile:
        return make_profile("T4", metrics={name: statistics(mean) for name in names}, feature_set="dcgm")

    parts = effects(Sum(), Pair(job(0.5), catalog["T4"], catalog["A10G"]), names, job(0.4).metrics)
    assert {one.name for one in parts} == {DATA_SHEETS, "4 other metrics", *names[4:]}
    factors = {one.name: one.factor for one in parts}
    assert factors["4 other metrics"] == pytest.approx(np.exp(0.1 * (1 + 2 + 3 + 4)))
    assert np.prod(list(factors.values())) == pytest.approx(np.exp(0.5 * 66))


def statistics(mean: float) -> dict[str, float]:
    return dict.fromkeys(STATISTICS, mean) | {"std": 0.0}


@pytest.mark.parametrize(("source", "target"), [("T4", "A10G"), ("T4", "H100 SXM5"), ("A100 SXM4 40GB", "T4")])
@pytest.mark.parametrize("changes", [{}, {"metrics": {}, "feature_set": "none"}])
def test_the_shipped_model_is_explained_exactly(
    shipped: LatencyPredictor, make_profile: Callable[..., Profile], source: str, target: str, changes: dict[str, Any]
) -> None:
    profile = make_profile(source, busy=0.35, precision="tf32", **changes)
    parts = explain(shipped, profile, target)
    used = set(METRICS) if (source, target) == ("T4", "A10G") else {"gpu_utilization"}  # else measured without telemetry
    assert np.prod([one.factor for one in parts]) == pytest.approx(shipped.predict(profile, [target])[0].ratio, rel=1e-9)
    assert {one.name for one in parts} - {DATA_SHEETS, REST} == (used if profile.metrics else set())
    sizes = [abs(np.log(one.factor)) for one in parts]
    assert sizes == sorted(sizes, reverse=True)


def test_nothing_to_explain_on_the_same_gpu(shipped: LatencyPredictor, make_profile: Callable[..., Profile]) -> None:
    assert explain(shipped, make_profile("T4"), "Tesla T4") == []


def test_typical_is_the_mean_and_a_valid_profile(
    catalog: Catalog, made_up_profiles: list[Profile], make_profile: Callable[..., Profile]
) -> None:
    by_gpu = typical_by_gpu(made_up_profiles, catalog)
    assert set(by_gpu) == {"T4", "A10G", "V100 SXM2 16GB"}
    means = [one.metrics["gpu_utilization"]["mean"] for one in made_up_profiles if one.gpu == "T4"]
    assert by_gpu["T4"]["gpu_utilization"]["mean"] == pytest.approx(np.mean(means))
    for gpu in catalog.values():
        typical = typical_metrics(by_gpu, gpu, catalog)
        assert make_profile(gpu.name, metrics=typical).metrics == typical


def test_a_gpu_never_trained_on_is_scaled_from_the_others(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    by_gpu = typical_by_gpu([make_profile("T4", 0.8), make_profile("T4", 0.6)], catalog)
    typical = typical_metrics(by_gpu, catalog["A100 SXM4 40GB"], catalog)
    assert typical["gpu_utilization"]["mean"] == pytest.approx(0.7)
    assert typical["power"]["mean"] == pytest.approx(60.0 * catalog["A100 SXM4 40GB"].tdp / catalog["T4"].tdp)


def test_one_profile_alone_is_not_stored(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    assert typical_by_gpu([make_profile("T4")], catalog) == {"T4": {}}


def test_average_power_stands_for_power(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    job = make_profile("T4", busy=0.4, precision="tf32")
    older = replace(job, metrics={"power_average" if name == "power" else name: of for name, of in job.metrics.items()})
    predictor = LatencyPredictor.load()
    parts = {one.name: one for one in explain(predictor, older, "A10G")}
    assert parts["power"].value == job.metrics["power"]["mean"]
    assert [one.factor for one in parts.values()] == [one.factor for one in explain(predictor, job, "A10G")]
