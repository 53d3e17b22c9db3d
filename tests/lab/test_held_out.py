"""Rows are predicted by fits that never saw them, and grouped without losing one."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError
from epochcast.regressor.scoring import score
from lab.evaluate.common import Split, hold_out, leave_each_out, random_folds
from lab.evaluate.common.comparison import held_out_figures

GROUPS = st.lists(st.sampled_from("abcdefgh"), max_size=40).map(lambda names: ["a", "b", *names])


@settings(deadline=None)  # a busy machine is no error
@given(GROUPS, st.integers(2, 12), st.integers(0, 3))
def test_folds_hold_whole_groups_and_about_equally_many(names: list[str], count: int, seed: int) -> None:
    groups = np.array(names)
    folds = random_folds(groups, count, seed)
    fold_of = set(zip(names, folds.tolist(), strict=True))
    assert len(fold_of) == len(set(names)), "each group is in one fold"
    sizes = [sum(fold == name for _, fold in fold_of) for name in set(folds.tolist())]
    assert len(sizes) == min(count, len(set(names))) and max(sizes) - min(sizes) <= 1
    assert (folds == random_folds(groups, count, seed)).all()


@settings(deadline=None)  # a busy machine is no error
@given(GROUPS)
def test_each_row_is_tested_once_by_a_fit_on_the_other_groups(names: list[str]) -> None:
    groups = np.array(names)
    points = pd.DataFrame({"group": groups})
    numbers = np.arange(1.0, len(groups) + 1)

    def fit_predict(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        assert not set(groups[train]) & set(groups[test]) and (train | test).all()
        return numbers[test]

    answers = hold_out(points, numbers, leave_each_out(groups), fit_predict, score)
    assert (answers.predicted == answers.measured).all() and (answers.measured == numbers).all()
    assert (answers.tests == groups).all() and sum(one.n for one in answers.by("group").values()) == len(groups)


def test_a_fit_that_fails_costs_its_own_rows_and_nothing_at_all_is_an_error() -> None:
    def fit_predict(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        if test[0]:
            raise InputError("a is needed")
        return np.full(int(test.sum()), 3.0)

    points = pd.DataFrame({"name": ["a", "b"], "batch": [8.0, 0.5]})
    answers = hold_out(points, np.array([1.0, 2.0]), leave_each_out(np.array(["a", "b"])), fit_predict, score)
    assert (answers.figures.coverage, answers.figures.mape, answers.reason) == (0.5, 50, "a is needed")
    assert {name: one.n for name, one in answers.by("batch").items()} == {"0.5": 1, "8": 0}, "numbers in their order"
    assert held_out_figures(answers, {}, lacking=2) == {
        **vars(answers.figures),
        "coverage": 1 / 4,
        "spread": pytest.approx(float("nan"), nan_ok=True),
        "unanswered": "a is needed",
        "by": {},
    }
    with pytest.raises(InputError, match="a is needed"):
        hold_out(points[:1], np.ones(1), [Split(np.zeros(1, dtype=bool), {"a": np.ones(1, dtype=bool)})], fit_predict, score)
