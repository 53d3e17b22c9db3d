import numpy as np
import pytest
from catboost import CatBoostRegressor
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from epochcast.regressor.arrays import under
from epochcast.regressor.trees import Trees


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor])
@pytest.mark.parametrize("leaf", [1, 2, 7])
def test_equals_scikit_learn_in_single_precision(kind: type, leaf: int) -> None:
    rng = np.random.default_rng(leaf)
    X, y = rng.normal(size=(300, 6)), rng.normal(size=300)
    model = kind(n_estimators=37, min_samples_leaf=leaf, random_state=0).fit(X, y)
    forest = Trees.of_forest(model)
    # Training rows lie closest to the thresholds.
    for rows in (X, rng.normal(size=(500, 6)) * 3, X[:1]):
        assert np.allclose(forest.predict(rows), model.predict(rows), rtol=0, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_equals_scikit_learn_on_coarse_values(seed: int, n: int) -> None:
    """Whole percents: many rows share a value, so that every threshold lies between or on them."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 5, size=(n, 3)) / 100, rng.normal(size=n)
    model = ExtraTreesRegressor(5, random_state=seed).fit(X, y)
    grid = np.stack(np.meshgrid(*[np.arange(-1, 6) / 100] * 3), axis=-1).reshape(-1, 3)
    # A row on the wrong side of one threshold would move by far more than a rounded leaf.
    assert np.allclose(Trees.of_forest(model).predict(grid), model.predict(grid), rtol=0, atol=1e-6)


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_equals_catboost(depth: int) -> None:
    rng = np.random.default_rng(depth)
    X, y = rng.integers(0, 50, size=(300, 5)) / 7, rng.lognormal(size=300)
    model = CatBoostRegressor(iterations=40, depth=depth, verbose=0, allow_writing_files=False).fit(X, y)
    trees = Trees.of_catboost(model)
    assert trees.start is not None and len(trees.roots) == 40
    borders = np.array(sorted({border for column in model.get_borders().values() for border in column}))
    for rows in (X, rng.normal(size=(500, 5)) * 3, rng.choice(borders, size=(200, 5))):
        np.testing.assert_allclose(trees.predict(rows.astype(np.float32)), model.predict(rows), rtol=1e-11)


def test_boosting_in_double_precision_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.lognormal(size=400)
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    boosted = Trees.of_boosting(model, np.float64)
    again = Trees.of_arrays(under("t", boosted.arrays()), "t")
    for rows in (X, rng.normal(size=(500, 3))):
        np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-12)


@pytest.fixture
def forest() -> Trees:
    rng = np.random.default_rng(0)
    return Trees.of_forest(ExtraTreesRegressor(3, random_state=0).fit(rng.normal(size=(40, 4)), rng.normal(size=40)))


def test_round_trip(forest: Trees) -> None:
    again = Trees.of_arrays(under("t", forest.arrays()), "t")
    X = np.random.default_rng(1).normal(size=(50, 4))
    assert np.array_equal(again.predict(X), forest.predict(X))
