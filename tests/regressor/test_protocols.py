import zlib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from epochcast.regressor import InputError
from epochcast.regressor.anchored import chosen_anchors
from epochcast.regressor.answers import Answers
from epochcast.regressor.pairs import Pair
from epochcast.regressor.protocols import PROTOCOLS, AnsweringRecipe, out_of_fold, splits
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.reliability import from_new_gpus
from lab.rivals.latency import RECIPES
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


def test_p1_leaks_workloads(pairs: list[Pair]) -> None:
    assert any(names(pairs, train, "workload") & names(pairs, test, "workload") for train, test in splits(pairs, "P1"))


def test_p2_shuffles_by_seed(pairs: list[Pair]) -> None:
    first, second = (next(iter(splits(pairs, "P2", seed)))[1] for seed in (0, 1))
    assert set(first) != set(second)


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


@pytest.mark.parametrize("anchors", [0, 1, 5])
def test_anchors_leave_the_test_rows_and_join_the_training(pairs: list[Pair], anchors: int) -> None:
    zero_shot = list(splits(pairs, "P4"))
    folds = list(splits(pairs, "P4-anchors", anchors=anchors))
    assert len(folds) == len(zero_shot) == 3
    for (train, test), (plain_train, plain_test) in zip(folds, zero_shot, strict=True):
        (gpu,) = names(pairs, test, "target")
        added = set(train) - set(plain_train)
        taken = set(plain_test) - set(test)
        assert taken <= added and set(plain_train) <= set(train) and set(test) <= set(plain_test)
        assert len(names(pairs, np.array(list(added), dtype=int), "workload")) == anchors
        assert not names(pairs, np.array(list(added), dtype=int), "workload") & names(pairs, test, "workload")
        assert all(gpu in (pairs[row].source_gpu.name, pairs[row].target_gpu.name) for row in added)


def test_the_new_gpus_seconds_play_no_part_in_the_choice_of_anchors(pairs: list[Pair]) -> None:
    def slower(pair: Pair) -> Pair:
        """The same data, had every epoch on the T4 been another."""
        factor = 1 + int(str(pair.source.workload).split(".")[1]) % 7
        source, target_s = pair.source, pair.target_s
        if pair.source_gpu.name == "T4":
            assert source.epoch_s is not None
            source = replace(source, epoch_s=source.epoch_s * factor)
        if pair.target_gpu.name == "T4":
            assert target_s is not None
            target_s *= factor
        return replace(pair, source=source, target_s=target_s)

    assert chosen_anchors([slower(pair) for pair in pairs], "T4") == chosen_anchors(pairs, "T4")


def test_a_recipe_that_answers_is_known_by_what_it_can_do() -> None:
    assert isinstance(DefaultRecipe(), AnsweringRecipe)
    assert not isinstance(RECIPES["prior"](), AnsweringRecipe) and not isinstance(PairMedian(), AnsweringRecipe)


def test_what_data_are_too_few_for(pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match="unknown protocol 'P9'; known are P2, P1, P3, new-workload, P4, new-gpu, P4-anchors"):
        list(splits(pairs, "P9"))
    with pytest.raises(
        InputError, match="1 workloads of the data ran on two GPUs; protocol P2, which training also uses, needs 5"
    ):
        list(splits(pairs[:6], "P2"))
    with pytest.raises(InputError, match="P3 needs a group"):
        list(splits(pairs[:6], "P3"))
    two_gpus = [pair for pair in pairs if {pair.source_gpu.name, pair.target_gpu.name} == {"T4", "A10G"}]
    with pytest.raises(InputError, match="24 anchors leave no workload to test on"):
        list(splits(pairs, "P4-anchors", anchors=24))
    with pytest.raises(InputError, match="P4 needs pairs among other GPUs without"):
        list(splits(two_gpus, "P4"))


def test_out_of_fold_never_sees_its_fold(pairs: list[Pair]) -> None:
    """A recipe that knows no GPU outside its training has no answer for a GPU left out."""
    seconds, folds, _ = out_of_fold(pairs, "P4", PairMedian())
    assert np.isnan(seconds).all() and set(folds) == {0, 1, 2}
    assert np.isfinite(out_of_fold(pairs, "P2", PairMedian())[0]).all()


class ByName(BaseEstimator):
    """Answers with a number that tells one pair from all others, and only for source GPUs that it has not seen."""

    def fit(self, pairs: list[Pair]) -> "ByName":
        self.seen_ = {pair.source_gpu.name for pair in pairs}
        return self

    def predict(self, pairs: list[Pair]) -> np.ndarray:
        return np.ones(len(pairs))

    def answer(self, pairs: list[Pair]) -> Answers:
        seen = np.array([pair.source_gpu.name in self.seen_ for pair in pairs])
        numbers = np.where(seen, np.nan, [number_of(pair) for pair in pairs])
        one = np.ones(len(pairs))
        sources = np.array([pair.source_gpu.name for pair in pairs])
        return Answers(numbers, one, one, np.full(len(pairs), "by name"), sources, np.full(len(pairs), ""))


def number_of(pair: Pair) -> float:
    return zlib.crc32(f"{pair.source.workload} {pair.source_gpu.name} {pair.target_gpu.name}".encode())


def test_a_second_question_is_answered_in_the_order_of_the_pairs(pairs: list[Pair]) -> None:
    """And by recipes that have not seen the source GPU, where the fold left it out as a target."""
    numbers = [number_of(pair) for pair in pairs]
    assert len(set(numbers)) == len(pairs)
    out = from_new_gpus(pairs)
    out_of_fold(pairs, "P4", ByName(), also=out)
    assert out.answers().log_ratio.tolist() == numbers


def test_out_of_fold_leaves_anchors_untested(pairs: list[Pair]) -> None:
    seconds, folds, _ = out_of_fold(pairs, "P4-anchors", PairMedian(), anchors=4)
    assert (folds == -1).sum() == 3 * 4 * 2  # GPUs, anchors, sources of each
    assert np.isnan(seconds[folds == -1]).all() and np.isfinite(seconds[folds >= 0]).all()


def test_p3_leaves_many_models_out_in_sixty_folds(pairs: list[Pair]) -> None:
    many = [
        replace(pair, source=replace(pair.source, group=str(number)))
        for number, pair in enumerate([*pairs] * 2)
        if number < 120
    ]
    folds = list(splits(many, "P3"))
    assert len(folds) == 60 and sorted(row for _, test in folds for row in test) == list(range(120))
    assert all(not names(many, train, "group") & names(many, test, "group") for train, test in folds)
