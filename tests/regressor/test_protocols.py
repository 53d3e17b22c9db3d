from collections.abc import Callable

import numpy as np
import pytest

from epochcast.regressor import InputError
from epochcast.regressor.pairs import Pair
from epochcast.regressor.protocols import PROTOCOLS, splits
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.rivals.latency.baselines import PairMedian


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_pair_is_tested_once_and_never_trained_on(pairs: list[Pair], protocol: str) -> None:
    folds = list(splits(pairs, protocol))
    assert not any(set(train) & set(test) for train, test in folds)
    assert sorted(row for _, test in folds for row in test) == list(range(len(pairs)))


@pytest.mark.parametrize(
    ("protocol", "seed", "folds", "held"),
    [
        *(("P2", seed, 5, lambda pair: {pair.source.workload}) for seed in range(3)),
        ("P3", 0, 4, lambda pair: {pair.source.group}),
        ("P4", 0, 3, lambda pair: {pair.target_gpu.name}),
    ],
)
def test_what_is_left_out_was_never_trained_on(
    pairs: list[Pair], protocol: str, seed: int, folds: int, held: Callable[[Pair], set[str]]
) -> None:
    found = list(splits(pairs, protocol, seed))
    assert len(found) == folds
    for train, test in found:
        left_out = set().union(*(held(pairs[row]) for row in test))
        assert protocol == "P2" or len(left_out) == 1
        assert not any(left_out & (held(pairs[row]) | {pairs[row].source_gpu.name}) for row in train)


def test_what_data_are_too_few_for(pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match="unknown protocol 'P9'; known are P2, P1, P3, P4"):
        list(splits(pairs, "P9"))
    with pytest.raises(
        InputError, match="1 workloads of the data ran on two GPUs; protocol P2, which training also uses, needs 5"
    ):
        list(splits(pairs[:6], "P2"))
    with pytest.raises(InputError, match="P3 needs a group"):
        list(splits(pairs[:6], "P3"))
    two_gpus = [pair for pair in pairs if {pair.source_gpu.name, pair.target_gpu.name} == {"T4", "A10G"}]
    with pytest.raises(InputError, match="P4 needs pairs among other GPUs without"):
        list(splits(two_gpus, "P4"))


def test_out_of_fold_never_sees_its_fold(pairs: list[Pair]) -> None:
    """A recipe that knows no GPU outside its training has no answer for a GPU left out."""
    seconds, folds, _ = out_of_fold(pairs, "P4", PairMedian())
    assert np.isnan(seconds).all() and set(folds) == {0, 1, 2}
    assert np.isfinite(out_of_fold(pairs, "P2", PairMedian())[0]).all()
