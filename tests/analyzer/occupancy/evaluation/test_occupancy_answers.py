"""Error figures against their definitions, written out."""

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.evaluation import Answers, figures, figures_by


def test_figures_are_those_of_section_iv_c() -> None:
    measured, predicted = np.array([0.5, 0.2, 0.4]), np.array([0.4, 0.3, np.nan])
    one = figures(measured, predicted)
    assert one.mre == one.mape == pytest.approx(100 * (0.1 / 0.5 + 0.1 / 0.2) / 2)
    assert one.mse == pytest.approx((0.1**2 + 0.1**2) / 2) and one.rmse == pytest.approx(0.1)
    assert (one.n, one.coverage) == (2, pytest.approx(2 / 3))


def test_groups_hold_each_row_once_and_sizes_are_in_bins() -> None:
    rng = np.random.default_rng(0)
    points = pd.DataFrame(
        {
            "network": rng.choice(["a", "b", "c"], 50),
            "family": "cnn",
            "gpu": "T4",
            "precision": "fp32",
            "batch": rng.choice([8, 16, 128], 50),
            "nodes": [99, 100, 199, 200, 799, 800, *rng.integers(1, 1500, 44)],
            "edges": rng.integers(0, 1500, 50),
        }
    )
    measured, predicted = rng.uniform(0.1, 1, 50), rng.uniform(0.1, 1, 50)
    answers = Answers(points, measured, predicted, points["network"].to_numpy(dtype=str), figures)
    for key, groups in figures_by(answers).items():
        assert sum(one.n for one in groups.values()) == 50, key
    assert list(figures_by(answers)["batch"]) == ["8", "16", "128"], "numbers in their order"
    own = points["nodes"].between(100, 199)
    expected = 100 * np.abs(predicted[own] / measured[own] - 1).mean()
    assert figures_by(answers)["nodes"]["100-199"].mre == pytest.approx(expected)
    assert figures_by(answers)["nodes"]["800+"].n == (points["nodes"] >= 800).sum()
    assert answers.spread == pytest.approx(np.std([one.mre for one in answers.by_test().values()], ddof=1))
