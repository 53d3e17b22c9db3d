import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

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


def test_boosting_in_double_precision_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.lognormal(size=400)
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    boosted = Trees.of_boosting(model, np.float64)
    again = Trees(**boosted.arrays())
    for rows in (X, rng.normal(size=(500, 3))):
        np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-12)
