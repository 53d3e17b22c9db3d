import numpy as np
import pytest

from epochcast.regressor.answers import Answers
from lab.evaluate.latency.interval_scores import fold_wise, interval_score


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


def test_a_fold_never_sets_its_own_width() -> None:
    error, folds = np.full(100, 0.01), np.repeat([0, 1], 50)
    error[folds == 1] = 0.5
    widths = fold_wise(error, folds, answers(np.ones(100)))
    assert set(widths[folds == 0]) == {0.5} and set(widths[folds == 1]) == {0.01}
