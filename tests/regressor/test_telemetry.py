from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.pairs import Pair, actual_ratio
from epochcast.regressor.recipes.default import _rates, _works
from epochcast.regressor.telemetry import TelemetryModel, has_telemetry, statistics_of


@pytest.fixture(scope="module")
def model(pairs: list[Pair]) -> TelemetryModel:
    return TelemetryModel().fit(pairs, _rates(pairs, _works(pairs)), 20)


def unlike(profile: Profile) -> Profile:
    """Memory traffic without kernels, at a power and a clock that no training job had."""
    strange = {"gpu_utilization": 0.02, "memory_utilization": 0.99, "power": 5.0, "sm_clock": 2e8}
    metrics = {name: dict.fromkeys(values, strange[name]) | {"std": 0.0} for name, values in profile.metrics.items()}
    return replace(profile, metrics=metrics)


def test_statistics_by_hand_and_free_of_latency(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    profile = make_profile("T4", busy=0.8)
    pair = Pair(profile, catalog["T4"], catalog["A10G"])
    row = statistics_of([pair])[0]
    assert row[4] == pytest.approx(np.log(0.8 / 0.2)) and row[11] == pytest.approx(60 / 70)
    assert row[-1] == pytest.approx(1.5e9 / 1.59e9)
    older = {("power_average" if name == "power" else name): of for name, of in profile.metrics.items()}
    assert has_telemetry(replace(profile, metrics=older)) and not has_telemetry(replace(profile, metrics={}))
    same = replace(pair, source=replace(profile, metrics=older, epoch_s=1e4))
    assert np.array_equal(statistics_of([same])[0], row)


def test_a_profile_unlike_any_and_a_new_gpu_are_less_sure(
    model: TelemetryModel, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    usual = make_profile("T4")
    asked = [(usual, "A10G"), (unlike(usual), "A10G"), (usual, "P100 PCIe 16GB"), (usual, "H100 SXM5")]
    near, strange, new, far = model.compare([Pair(one, catalog["T4"], catalog[gpu]) for one, gpu in asked]).variance
    assert near < 0.2 * strange and near < new < far


def test_an_outlier_does_not_bend_its_neighbours(pairs: list[Pair], model: TelemetryModel) -> None:
    """One of 24 workloads stalled on the A10G and took ten times as long."""
    ones = [pair.target_gpu.name == "A10G" and pair.source.workload == "0.5" for pair in pairs]
    stalled = [
        replace(pair, target_s=10 * (pair.target_s or 0)) if one else pair for pair, one in zip(pairs, ones, strict=True)
    ]
    others = [pair for pair in pairs if pair.source.workload != "0.5"]
    error = TelemetryModel().fit(stalled, _rates(stalled, _works(stalled)), 20).compare(others).mean - np.log(
        actual_ratio(others)
    )
    assert np.median(np.abs(error)) < 0.04


def test_no_training_profile_stands_among_the_inducing_points(model: TelemetryModel, pairs: list[Pair]) -> None:
    assert len(model._points) > 50 and cdist(model._points, model._scaled(pairs)).min() > 1e-6


def test_what_is_restored_answers_alike(model: TelemetryModel, pairs: list[Pair]) -> None:
    again = TelemetryModel.restored(model.state())
    assert np.array_equal(again.compare(pairs).mean, model.compare(pairs).mean)
    assert (again.gpus, again.kinds, again.types, again.workloads) == (model.gpus, model.kinds, model.types, model.workloads)
