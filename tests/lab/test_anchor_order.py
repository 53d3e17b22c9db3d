from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.telemetry import statistics_of
from lab.corpus.anchor_order import anchor_order


def test_the_order_is_nested_and_holds_each_workload_once(pairs: list[Pair]) -> None:
    order = [anchor["workload"] for anchor in anchor_order(pairs)]
    assert sorted(order) == sorted({pair.source.workload for pair in pairs})
    for count in (1, 3, 10):
        assert [anchor["workload"] for anchor in anchor_order(pairs, count)] == order[:count]


def test_measured_seconds_of_a_target_play_no_part(pairs: list[Pair]) -> None:
    asked = [replace(pair, target_s=None) for pair in pairs]
    assert anchor_order(asked) == anchor_order(pairs)


def test_anchors_lie_nearer_to_the_library_than_random_workloads_do(pairs: list[Pair]) -> None:
    seen = {(pair.source.workload, pair.source_gpu.name): pair for pair in pairs}
    workloads = sorted({workload for workload, _ in seen})
    X = statistics_of([seen[workload, "T4"] for workload in workloads])
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)

    def mean_distance(chosen: list[str]) -> float:
        rows = [workloads.index(workload) for workload in chosen]
        return float(np.linalg.norm(X[:, None] - X[None, rows], axis=-1).min(axis=1).mean())

    rng = np.random.default_rng(0)
    random = [mean_distance(rng.permutation(workloads)[:5].tolist()) for _ in range(50)]
    assert mean_distance([anchor["workload"] for anchor in anchor_order(pairs, 5)]) < np.quantile(random, 0.1)


def test_covered_grows_to_all_of_it(pairs: list[Pair]) -> None:
    covered = [anchor["covered"] for anchor in anchor_order(pairs)]
    assert covered == sorted(covered)
    assert covered[-1] == pytest.approx(1.0)


def test_of_equals_the_shortest_epoch_is_taken(make_profile: Callable[..., Profile], catalog: Catalog) -> None:
    profiles = [
        make_profile(gpu, busy, seconds, workload=f"{busy}/{seconds}")
        for gpu in ("T4", "A10G")
        for busy in (0.2, 0.9)
        for seconds in (50.0, 3.0, 700.0)
    ]
    chosen = anchor_order(make_pairs(profiles, catalog), 2)
    assert sorted(anchor["workload"] for anchor in chosen) == ["0.2/3.0", "0.9/3.0"]


def test_profiles_without_the_metrics_are_refused(make_profile: Callable[..., Profile], catalog: Catalog) -> None:
    bare = [make_profile(gpu, metrics={}, feature_set="none", workload="w") for gpu in ("T4", "A10G")]
    with pytest.raises(InputError, match="none of the 2 pairs holds gpu_utilization"):
        anchor_order(make_pairs(bare, catalog))
