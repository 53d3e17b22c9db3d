import numpy as np
import pytest

from epochcast.regressor.answers import Answers
from lab.evaluate.latency.interval_scores import constant_width, fold_wise, interval_score, score_intervals


def answers(scale: np.ndarray, route: str = "speeds") -> Answers:
    n = len(scale)
    return Answers(
        np.zeros(n), scale, np.ones(n), np.full(n, route), np.full(n, route), np.full(n, ""), np.full((n, 4), np.nan)
    )


def naive_score(low: float, high: float, true: float) -> float:
    """Winkler's, as it stands in Gneiting & Raftery 2007, eq. 43, for 90 %."""
    if true < low:
        return (high - low) + 2 / 0.1 * (low - true)
    if true > high:
        return (high - low) + 2 / 0.1 * (true - high)
    return high - low


def test_the_interval_score_is_the_papers() -> None:
    rng = np.random.default_rng(0)
    error, width = rng.normal(0, 0.2, 200), rng.uniform(0.01, 0.5, 200)
    expected = [naive_score(e - w, e + w, 0.0) for e, w in zip(error, width, strict=True)]
    assert interval_score(error, width) == pytest.approx(expected)


def test_widths_that_follow_the_errors_beat_one_width() -> None:
    """Errors of two sizes: both kinds of interval hold 90 %, but only one is narrow where the errors are small."""
    rng = np.random.default_rng(1)
    scale = np.where(rng.random(2000) < 0.5, 0.02, 0.2)
    error, folds = rng.normal(0, scale), np.arange(2000) % 5
    follows = score_intervals(error, fold_wise(error, folds, answers(scale)))
    one = score_intervals(error, constant_width(error, folds, answers(scale)))
    assert follows.inside == pytest.approx(0.9, abs=0.02) and one.inside == pytest.approx(0.9, abs=0.02)
    assert follows.score < 0.8 * one.score
    assert len(set(constant_width(error, folds, answers(scale)))) <= 5  # one per fold


def test_a_fold_never_sets_its_own_width() -> None:
    error, folds = np.full(100, 0.01), np.repeat([0, 1], 50)
    error[folds == 1] = 0.5
    widths = fold_wise(error, folds, answers(np.ones(100)))
    assert set(widths[folds == 0]) == {0.5} and set(widths[folds == 1]) == {0.01}


def test_a_cell_of_one_fold_alone_has_no_interval() -> None:
    both = Answers.concatenate([answers(np.ones(20)), answers(np.ones(5), "prior")])
    folds = np.array([0, 1] * 10 + [1] * 5)
    widths = fold_wise(np.full(25, 0.1), folds, both)
    assert np.isfinite(widths[:20]).all() and np.isnan(widths[20:]).all()
    assert np.isfinite(constant_width(np.full(25, 0.1), folds, both)).all()
