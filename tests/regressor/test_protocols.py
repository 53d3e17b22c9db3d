import numpy as np
import pytest

from epochcast.regressor import InputError
from epochcast.regressor.pairs import Pair
from epochcast.regressor.protocols import PROTOCOLS, out_of_fold, splits
from lab.rivals.latency.baselines import PairMedian


def names(pairs: list[Pair], rows: np.ndarray, what: str) -> set[str]:
    return {
        {
            "workload": pairs[row].source.workload,
            "group": pairs[row].source.group,
            "source": pairs[row].source_gpu.name,
            "target": pairs[row].target_gpu.name,
        }[what]
        or ""
        for row in rows
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_pair_is_tested_once_and_never_trained_on(pairs: list[Pair], protocol: str) -> None:
    tested = []
    for train, test in splits(pairs, protocol):
        assert not set(train) & set(test)
        tested.extend(test)
    assert sorted(tested) == list(range(len(pairs)))


@pytest.mark.parametrize("seed", range(3))
def test_p2_keeps_workloads_together(pairs: list[Pair], seed: int) -> None:
    folds = list(splits(pairs, "P2", seed))
    assert len(folds) == 5
    for train, test in folds:
        assert not names(pairs, train, "workload") & names(pairs, test, "workload")


def test_p3_leaves_one_model_out(pairs: list[Pair]) -> None:
    folds = list(splits(pairs, "P3"))
    assert len(folds) == 4
    for train, test in folds:
        (model,) = names(pairs, test, "group")
        assert model not in names(pairs, train, "group")


def test_p4_leaves_one_gpu_out_on_both_sides(pairs: list[Pair]) -> None:
    folds = list(splits(pairs, "P4"))
    assert len(folds) == 3
    for train, test in folds:
        (gpu,) = names(pairs, test, "target")
        assert gpu not in names(pairs, train, "source") | names(pairs, train, "target")


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
