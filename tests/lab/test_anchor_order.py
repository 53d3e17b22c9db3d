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


def test_profiles_without_the_metrics_are_refused(make_profile: Callable[..., Profile], catalog: Catalog) -> None:
    bare = [make_profile(gpu, metrics={}, feature_set="none", workload="w") for gpu in ("T4", "A10G")]
    with pytest.raises(InputError, match="none of the 2 pairs holds gpu_utilization"):
        anchor_order(make_pairs(bare, catalog))
