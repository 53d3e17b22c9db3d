from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.derived import SourceFeatures, columns_of, static_features, usable_metrics
from epochcast.regressor.pairs import Pair
from epochcast.regressor.profile import METRICS, STATISTICS
from epochcast.regressor.recipes import DefaultRecipe


def with_metrics(profile: Profile, **means: float) -> Profile:
    steady = {name: dict.fromkeys(STATISTICS, mean) | {"std": 0.0} for name, mean in means.items()}
    return replace(profile, metrics=profile.metrics | steady, feature_set="dcgm")


def test_features_are_named_finite_and_free_of_latency(pairs: list[Pair]) -> None:
    features = SourceFeatures.choose(pairs)
    X = features.matrix(pairs)
    assert X.shape == (len(pairs), len(features.columns)) and np.isfinite(X).all()
    longer = [replace(pair, source=replace(pair.source, epoch_s=1e4)) for pair in pairs]
    assert np.array_equal(features.matrix(longer), X)
    assert features.metrics == ("gpu_utilization", "memory_utilization", "power", "sm_clock")


def test_values_by_hand(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    pair = Pair(with_metrics(make_profile("T4", busy=0.8), pcie_rx=9e6), catalog["T4"], catalog["A10G"])
    features = SourceFeatures(("gpu_utilization", "pcie_rx", "power", "sm_clock"), columns_of(METRICS), {})
    values = dict(zip(features.columns, features.matrix([pair])[0], strict=True))
    assert values["gpu_utilization_logit"] == pytest.approx(np.log(0.8 / 0.2))
    assert values["power_mean_per_tdp"] == pytest.approx(60 / 70)
    assert values["sm_clock_mean_per_boost"] == pytest.approx(1.5e9 / 1.59e9)
    assert values["pcie_rx_mean_log"] == pytest.approx(1.0)
    assert np.isnan(values["dram_active_mean"])


def test_what_never_varies_or_is_not_everywhere_goes_and_is_reported(pairs: list[Pair]) -> None:
    some = [
        replace(
            pair, source=with_metrics(pair.source, temperature=60, memory_used=1e9, **({"dram_active": 0.3} if number else {}))
        )
        for number, pair in enumerate(pairs)
    ]
    features = SourceFeatures.choose(some)
    assert features.excluded["dram_active"] == f"in {len(pairs) - 1} of {len(pairs)} training pairs only"
    assert "depends on the previous job" in features.excluded["temperature"]
    assert "identifies the GPU" in features.excluded["memory_used"]
    # The made-up power is 60 W for every job, and its median equals its mean.
    assert features.excluded["power_p50_per_tdp"] == "identical to power_mean_per_tdp"
    assert not set(features.excluded) & set(features.columns)


def test_average_power_stands_in_for_power(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    profile = make_profile()
    older = replace(profile, metrics={("power_average" if k == "power" else k): v for k, v in profile.metrics.items()})
    assert usable_metrics(older) == usable_metrics(profile)
    features = SourceFeatures(("power",), columns_of(["power"]), {})
    one, other = (features.matrix([Pair(each, catalog["T4"], catalog["A10G"])]) for each in (profile, older))
    assert np.array_equal(one, other)


def test_static_features_depend_on_the_gpus_alone_but_for_the_prior(pairs: list[Pair]) -> None:
    X = static_features(pairs)
    assert X.shape == (len(pairs), 6)
    same = [
        row
        for row, pair in enumerate(pairs)
        if (pair.source_gpu, pair.target_gpu) == (pairs[0].source_gpu, pairs[0].target_gpu)
    ]
    assert (X[same, :-1] == X[same[0], :-1]).all() and len(set(X[same, -1])) > 1


def test_dcgm_metrics_are_learnt_from_where_every_profile_holds_them(pairs: list[Pair], catalog: Catalog) -> None:
    """Ratios that depend on sm_active alone: a recipe that sees it answers what one without it cannot know."""
    rng = np.random.default_rng(0)
    active = {pair.source.workload: rng.uniform(0.1, 0.9) for pair in pairs}

    def told(pair: Pair, *, dcgm: bool) -> Pair:
        share = active[pair.source.workload]
        source = with_metrics(pair.source, sm_active=share, tensor_active=share / 2) if dcgm else pair.source
        assert pair.source.epoch_s is not None and pair.target_s is not None
        faster = pair.target_gpu.effective_flops > pair.source_gpu.effective_flops
        return replace(pair, source=source, target_s=pair.target_s * float(np.exp(share if faster else -share)))

    errors = {}
    for dcgm in (False, True):
        asked = [told(pair, dcgm=dcgm) for pair in pairs]
        left_out = np.array([pair.source.group == "m0" for pair in asked])
        train, test = ([pair for pair, out in zip(asked, left_out, strict=True) if out == which] for which in (False, True))
        recipe = DefaultRecipe(trees=30).fit(train)
        actual = np.array([pair.target_s for pair in test])
        errors[dcgm] = np.abs(np.log(recipe.predict(test) / actual)).mean()
        assert recipe.correction_ is not None and ("sm_active" in recipe.correction_.features_.metrics) == dcgm
    assert errors[True] < 0.6 * errors[False]


def test_a_metric_that_stands_still_is_not_asked_of_a_profile(pairs: list[Pair], catalog: Catalog) -> None:
    recipe = DefaultRecipe(trees=5).fit([replace(pair, source=with_metrics(pair.source, fp64_active=0.0)) for pair in pairs])
    assert recipe.correction_ is not None
    features = recipe.correction_.features_
    assert features.metrics == ("gpu_utilization", "memory_utilization", "power", "sm_clock")
    assert features.excluded["fp64_active_mean"] == "constant"
    asked = [Pair(pairs[0].source, catalog["T4"], catalog[gpu]) for gpu in ("A10G", "H100 SXM5")]
    assert recipe.answer(asked).routes.tolist() == ["ensemble", "residual"]
