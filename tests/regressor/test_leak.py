"""The look-up of benchmarks/regressor/paper.py answers from what training pairs say, and knows nothing of a new workload."""

import numpy as np
from benchmarks.regressor import paper

from epochcast.regressor.pairs import Pair, target_seconds
from epochcast.regressor.protocols import out_of_fold


def test_two_pairs_name_a_third(pairs: list[Pair]) -> None:
    workload = [pair for pair in pairs if pair.source.workload == pairs[0].source.workload]
    by_gpus = {(pair.source_gpu.name, pair.target_gpu.name): pair for pair in workload}
    look_up = paper.LookUp().fit([by_gpus["T4", "A10G"], by_gpus["V100 SXM2 16GB", "A10G"]])
    asked = [by_gpus["T4", "V100 SXM2 16GB"], by_gpus["A10G", "T4"]]
    assert np.array_equal(look_up.predict(asked), target_seconds(asked))


def test_random_rows_leak_and_grouped_ones_do_not(pairs: list[Pair]) -> None:
    actual = target_seconds(pairs)
    random = out_of_fold(pairs, "P1", paper.LookUp())[0]
    answered = np.isfinite(random)
    assert answered.mean() > 0.8 and np.array_equal(random[answered], actual[answered])
    for protocol in ("P2", "P3", "P4"):
        assert np.isnan(out_of_fold(pairs, protocol, paper.LookUp())[0]).all()
