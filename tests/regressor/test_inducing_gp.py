import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from epochcast.regressor.inducing_gp import InducingGaussianProcess, PairProcesses


def smooth(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(200, 2))


def test_is_near_the_exact_process_of_scikit_learn(rows: np.ndarray) -> None:
    y = smooth(rows)
    ours = InducingGaussianProcess(outlier=1e9).fit(rows, y)
    exact = GaussianProcessRegressor(4 * Matern(np.sqrt(2), "fixed", nu=2.5), alpha=0.17**2, optimizer=None)
    asked = np.random.default_rng(1).uniform(-1.5, 1.5, size=(50, 2))  # at the rim the projection shows
    target = (y - np.median(y)) / y.std()
    mean, deviation = exact.fit(rows, target).predict(asked, return_std=True)
    predicted, unknown = ours.predict_with_variance(asked)
    assert np.abs(predicted - (np.median(y) + y.std() * mean)).max() < 0.02
    assert np.abs(np.sqrt(unknown) * 2 - deviation).max() < 0.05


def test_an_outlier_does_not_bend_its_neighbours(rows: np.ndarray) -> None:
    y = smooth(rows)
    spoilt = y.copy()
    spoilt[7] += 10
    process = InducingGaussianProcess().fit(rows, spoilt)
    assert process.weights_[7] < 0.05 and np.median(process.weights_) > 0.7
    near = rows[[7]] + 0.01
    bent = InducingGaussianProcess(outlier=1e9).fit(rows, spoilt)
    assert abs(process.predict(near) - smooth(near)) < 0.2 < abs(bent.predict(near) - smooth(near))


def test_no_row_is_an_inducing_point(rows: np.ndarray) -> None:
    points = InducingGaussianProcess().fit(rows, smooth(rows)).points_
    assert not (rows[:, None] == points[None]).all(axis=2).any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_and_equal_rows(n: int) -> None:
    process = InducingGaussianProcess().fit(np.zeros((n, 2)), np.full(n, 3.0))
    assert process.predict(np.zeros((1, 2)))[0] == pytest.approx(3.0)


def test_of_many_rows_a_process_takes_some() -> None:
    many = np.random.default_rng(1).uniform(-1, 1, (700, 2))
    sources, targets = np.full(700, "T4"), np.full(700, "A10G")
    processes, weights = PairProcesses.fit(many, smooth(many), sources, targets)
    assert weights.shape == (700,)
    assert np.abs(processes.predict(many, sources, targets)[0] - smooth(many)).max() < 0.2
    assert 100 < len(processes.arrays()["0.points"]) <= 500
    again, _ = PairProcesses.fit(many, smooth(many), sources, targets)
    assert np.array_equal(again.predict(many, sources, targets)[0], processes.predict(many, sources, targets)[0])
