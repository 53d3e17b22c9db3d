from collections.abc import Callable
from dataclasses import replace

import pytest

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.pairs import Pair, make_pairs
from lab.corpus.anchor_order import anchor_order


def test_the_order_is_nested_and_holds_each_workload_once(pairs: list[Pair]) -> None:
    order = [anchor["workload"] for anchor in anchor_order(pairs)]
    assert sorted(order) == sorted({pair.source.workload for pair in pairs})
    for count in (1, 3, 10):
        assert [anchor["workload"] for anchor in anchor_order(pairs, count)] == order[:count]


def test_measured_seconds_of_a_target_play_no_part(pairs: list[Pair]) -> None:
    asked = [replace(pair, target_s=None) for pair in pairs]
    assert anchor_order(asked) == anchor_order(pairs)


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
