from collections.abc import Callable

import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.features import paper_features
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from lab.rivals.latency.prior import prior_log_ratio


def test_pairs_join_a_workload_across_gpus(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    profiles = [
        make_profile("g4dn", epoch_s=10.0, workload="a"),
        make_profile("A10G", epoch_s=4.0, workload="a"),
        make_profile("T4", epoch_s=7.0, workload="b"),
        make_profile("T4", epoch_s=8.0, workload="a"),
    ]
    pairs = make_pairs(profiles, catalog)
    assert [(pair.source_gpu.name, pair.target_gpu.name, pair.target_s) for pair in pairs] == [
        ("T4", "A10G", 4.0),
        ("A10G", "T4", 10.0),
        ("A10G", "T4", 8.0),
        ("T4", "A10G", 4.0),
    ]
    assert actual_ratio(pairs) == pytest.approx([0.4, 2.5, 2.0, 0.5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": None}, "has no workload"),
        ({"workload": "a", "epoch_s": None}, "has no epoch_s"),
        ({"workload": "a", "gpu": "V100"}, "ambiguous"),
        ({"workload": "a"}, "no workload of the 1 profiles ran on two GPUs"),
    ],
)
def test_profiles_that_cannot_be_paired(
    catalog: Catalog, make_profile: Callable[..., Profile], changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make_pairs([make_profile(**changes)], catalog)


def test_paper_features_are_raw_statistics_source_over_target_and_latency(
    catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    features = paper_features([Pair(make_profile(epoch_s=6.44), catalog["V100 SXM2 16GB"], catalog["T4"])])
    # The paper's own example, Fig. 7: V100 to T4 is 5120 / 2560 CUDA cores.
    assert features["cuda_cores_ratio"].item() == 5120 / 2560
    assert features["latency"].item() == 6.44
    assert features["gpu_utilization_p25"].item() == 0.8
    assert features["dram_active_mean"].isna().all()
    assert not any("T4" in column or "workload" in column for column in features)


def test_prior_by_hand(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    t4, v100 = catalog["T4"], catalog["V100 SXM2 16GB"]
    flops = (40 * 64 * 1.5e9) / (80 * 64 * 1.53e9)  # the clock that the job ran at, not the boost clock
    balanced = np.sqrt(flops * 320 / 900)
    busy = 0.6
    expected = 0.5 * (np.log(0.4 + 0.6 * flops) + np.log(0.4 + 0.6 * balanced))
    assert prior_log_ratio([Pair(make_profile(busy=busy), t4, v100)])[0] == pytest.approx(expected)
    # An idle GPU leaves nothing to speed up.
    assert prior_log_ratio([Pair(make_profile(busy=0.0), t4, v100)])[0] == 0
