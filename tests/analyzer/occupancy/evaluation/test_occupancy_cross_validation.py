"""Predictions come from fits that never saw the rows; a fit that fails costs its own rows only."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_occupancies import made_samples

from epochcast.analyzer.backends.occupancy.evaluation import (
    PROTOCOLS,
    Answers,
    cross_validate,
    figures,
    figures_by,
    train_and_test,
)
from epochcast.analyzer.backends.occupancy.learning_curve import learning_curve
from epochcast.analyzer.backends.occupancy.models import make
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError

DATA = made_samples([f"net{number}" for number in range(8)])


class _Memory:
    """Answers 1 where it was fitted on the network, else 0.5."""

    def fit(self, samples: Sequence[Sample], values: Any) -> "_Memory":
        self.known = {sample.configuration.network for sample in samples}
        if "net0" not in self.known:
            raise InputError("net0 is what it needs")
        return self

    def predict(self, samples: Sequence[Sample]) -> Any:
        return np.array([1.0 if sample.configuration.network in self.known else 0.5 for sample in samples])


def test_rows_are_predicted_by_fits_on_other_networks() -> None:
    answers = cross_validate(DATA, "mean", _Memory, PROTOCOLS["model"](DATA.points, None, 0))  # type: ignore[arg-type]
    asked = answers.points["network"].to_numpy()
    assert (answers.tests == asked).all() and len(asked) == len(DATA.points)
    assert np.isnan(answers.predicted[asked == "net0"]).all() and answers.reason == "net0 is what it needs"
    assert (answers.predicted[asked != "net0"] == 0.5).all(), "none was fitted on its own network"
    assert answers.figures.coverage == 7 / 8
    assert (answers.measured == DATA.points["mean"]).all()


def test_the_paper_protocols_seen_rows_are_of_fitted_networks_and_others_are_not_asked() -> None:
    data = made_samples(["lenet", "resnet18", "resnet50", "elsewhere"], batches=(4, 8, 16, 32, 64))
    answers = cross_validate(data, "max", partial(make, "mean"), PROTOCOLS["paper"](data.points, None, 0))
    assert set(answers.tests) == {"seen", "unseen"} and "elsewhere" not in set(answers.points["network"])
    assert set(answers.points["network"][answers.tests == "unseen"]) == {"resnet50"}


def test_a_mean_of_the_others_by_hand() -> None:
    answers = cross_validate(DATA, "time_mean", partial(make, "mean"), PROTOCOLS["model"](DATA.points, None, 0))
    points = DATA.points
    for name in points["network"].unique():
        expected = points["time_mean"][points["network"] != name].mean()
        assert answers.predicted[answers.points["network"] == name] == pytest.approx(expected)


def test_train_and_test_fits_on_one_table_only() -> None:
    test = made_samples(["other", "another"])
    answers = train_and_test(DATA, test, "mean", partial(make, "mean"))
    assert answers.predicted == pytest.approx(DATA.points["mean"].mean())
    assert len(answers.points) == len(test.points) and set(answers.tests) == {"test"}


def test_nothing_predicted_is_one_sentence() -> None:
    data = made_samples(["net1", "net2", "net3"])
    with pytest.raises(InputError, match="net0 is what it needs"):
        cross_validate(data, "mean", _Memory, PROTOCOLS["model"](data.points, None, 0))  # type: ignore[arg-type]


def test_a_learning_curve_fits_on_so_many_and_tests_the_same_rows() -> None:
    splits = PROTOCOLS["model"](DATA.points, 2, 0)
    told: list[str] = []
    curve, answers = learning_curve(DATA, "mean", partial(make, "nearest"), splits, draws=2, progress=told.append)
    sizes = {by: [point.size for point in curve if point.by == by] for by in ("configurations", "networks")}
    assert sizes == {"configurations": [16], "networks": [2, 4]}, "16 rows of 4 networks stay, so 16 is all"
    assert [point.draws for point in curve] == [1, 2, 1]
    assert curve[1].spread > 0, "each draw is another one"
    assert curve[0].mre == curve[-1].mre == answers.figures.mre and len(answers.points) == len(DATA.points)
    assert any("2 networks, draw 2 of 2" in line for line in told)
    whole, _ = learning_curve(DATA, "mean", partial(make, "nearest"), PROTOCOLS["model"](DATA.points, None, 0), draws=1)
    assert [point.size for point in whole] == [16, 28, 2, 4, 7]


def test_parts_of_a_learning_curve_hold_no_network_that_is_tested() -> None:
    """By fits that write down what they were given; rows of one network are alike, so that one of them is a leak."""
    fits: list[tuple[int, int]] = []

    class Noting(_Memory):
        def fit(self, samples: Sequence[Sample], values: Any) -> "_Memory":
            self.known = {sample.configuration.network for sample in samples}
            fits.append((len(samples), len(self.known)))
            return self

        def predict(self, samples: Sequence[Sample]) -> Any:
            assert not self.known & {sample.configuration.network for sample in samples}
            return super().predict(samples)

    learning_curve(DATA, "mean", Noting, PROTOCOLS["model"](DATA.points, None, 0), draws=2)  # type: ignore[arg-type]
    assert {(8, 2), (16, 4), (28, 7)} <= set(fits)
    assert {rows for rows, networks in fits if 4 * networks != rows} == {16}, "configurations are drawn from all that stay"


def test_draws_that_answer_fewer_rows_are_left_out_of_a_learning_curve() -> None:
    """Fits without net0 fail: of two or four networks some splits always lack it."""
    curve, answers = learning_curve(DATA, "mean", _Memory, PROTOCOLS["model"](DATA.points, None, 0))  # type: ignore[arg-type]
    assert answers.figures.n == 28
    assert [(point.by, point.size) for point in curve] == [("configurations", 16), ("configurations", 28), ("networks", 7)]


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
