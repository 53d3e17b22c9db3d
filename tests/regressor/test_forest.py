import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from epochcast.regressor import InputError
from epochcast.regressor.forest import Forest


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor])
@pytest.mark.parametrize("leaf", [1, 2, 7])
def test_equals_scikit_learn_in_single_precision(kind: type, leaf: int) -> None:
    rng = np.random.default_rng(leaf)
    X, y = rng.normal(size=(300, 6)), rng.normal(size=300)
    model = kind(n_estimators=37, min_samples_leaf=leaf, random_state=0).fit(X, y)
    forest = Forest.from_sklearn(model)
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
    assert np.allclose(Forest.from_sklearn(model).predict(grid), model.predict(grid), rtol=0, atol=1e-6)


@pytest.fixture
def forest() -> Forest:
    rng = np.random.default_rng(0)
    return Forest.from_sklearn(ExtraTreesRegressor(3, random_state=0).fit(rng.normal(size=(40, 4)), rng.normal(size=40)))


def test_round_trip_without_pickle(tmp_path: Path, forest: Forest) -> None:
    forest.save(tmp_path / "a.npz")
    again = Forest.load(tmp_path / "a.npz", features=4)
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
def test_unsound_trees_are_refused(tmp_path: Path, forest: Forest, name: str, change: object) -> None:
    arrays = dict(vars(forest))
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match="not sound"):
        Forest.load(tmp_path / "bad.npz", features=4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_flipped_bytes_are_refused_or_harmless(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    model = ExtraTreesRegressor(3, random_state=0).fit(X, X[:, 0])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "forest.npz"
        Forest.from_sklearn(model).save(path)
        content = bytearray(path.read_bytes())
        for position in rng.integers(len(content), size=3):
            content[position] ^= int(rng.integers(1, 256))
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            assert Forest.load(path, features=3).predict(X).shape == (40,)
