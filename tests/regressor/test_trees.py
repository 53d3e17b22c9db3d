import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from catboost import CatBoostRegressor
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from epochcast.regressor import InputError
from epochcast.regressor.arrays import load_arrays, save_arrays, under
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
    again = Trees.of_arrays(under("t", boosted.arrays()), "t", 3, boosted=True, dtype=np.float64, largest=1e6)
    for rows in (X, rng.normal(size=(500, 3))):
        np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-12)


@pytest.fixture
def forest() -> Trees:
    rng = np.random.default_rng(0)
    return Trees.of_forest(ExtraTreesRegressor(3, random_state=0).fit(rng.normal(size=(40, 4)), rng.normal(size=40)))


def test_round_trip_without_pickle(tmp_path: Path, forest: Trees) -> None:
    save_arrays(tmp_path / "a.npz", under("t", forest.arrays()))
    again = Trees.of_arrays(load_arrays((tmp_path / "a.npz").read_bytes(), "a.npz"), "t", features=4)
    X = np.random.default_rng(1).normal(size=(50, 4))
    assert np.array_equal(again.predict(X), forest.predict(X))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("skip", lambda values: values + 10_000),
        ("skip", lambda values: np.zeros_like(values)),
        ("skip", lambda values: -values),
        ("roots", lambda values: values - 1),
        ("roots", lambda values: values[:0]),
        ("feature", lambda values: np.full_like(values, 4)),
        ("feature", lambda values: values - 5),
    ],
)
def test_unsound_trees_are_refused(forest: Trees, name: str, change: object) -> None:
    arrays = forest.arrays()
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    with pytest.raises(InputError, match="are invalid"):
        Trees.of_arrays(under("t", arrays), "t", features=4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_flipped_bytes_are_refused_or_harmless(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    model = ExtraTreesRegressor(3, random_state=0).fit(X, X[:, 0])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "forest.npz"
        save_arrays(path, under("t", Trees.of_forest(model).arrays()))
        content = bytearray(path.read_bytes())
        for position in rng.integers(len(content), size=3):
            content[position] ^= int(rng.integers(1, 256))
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            arrays = load_arrays(path.read_bytes(), path.name)
            assert Trees.of_arrays(arrays, "t", features=3).predict(X).shape == (40,)
