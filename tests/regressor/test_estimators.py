"""Estimators follow scikit-learn: its own checks where the input is a matrix, the same rules by hand where it is pairs."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from epochcast.regressor import InputError
from epochcast.regressor.pairs import Pair, actual_ratio, source_seconds, target_seconds
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.scoring import score
from lab.rivals.latency.log_ratio import LogRatioRecipe
from lab.rivals.latency.pair_features import PairFeatures

pytestmark = pytest.mark.usefixtures("in_threads")


def extra_trees(kind: str = "derived") -> Any:
    return make_pipeline(PairFeatures(kind), ExtraTreesRegressor(20, random_state=0))  # type: ignore[arg-type]


def test_pair_features_start_a_pipeline_that_cross_validates(pairs: list[Pair]) -> None:
    y, groups = np.log(actual_ratio(pairs)), [pair.source.workload for pair in pairs]
    predicted = cross_val_predict(extra_trees(), pairs, y, groups=groups, cv=GroupKFold(4))
    errors = score(target_seconds(pairs), source_seconds(pairs) * np.exp(predicted))
    assert errors.mape < 10 < score(target_seconds(pairs), source_seconds(pairs)).mape


def test_a_search_reaches_every_parameter(pairs: list[Pair]) -> None:
    y, groups = np.log(actual_ratio(pairs)), [pair.source.workload for pair in pairs]
    grid = {"pairfeatures__kind": ["derived", "paper"], "extratreesregressor__min_samples_leaf": [1, 20]}
    search = GridSearchCV(extra_trees(), grid, cv=GroupKFold(3)).fit(pairs, y, groups=groups)
    assert search.best_params_["extratreesregressor__min_samples_leaf"] == 1
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("protocol", ["P2", "P3", "P4"])
def test_a_pipeline_is_a_recipe(pairs: list[Pair], protocol: str) -> None:
    regressor = extra_trees()
    predicted = out_of_fold(pairs, protocol, LogRatioRecipe(regressor))[0]  # type: ignore[arg-type]
    assert score(target_seconds(pairs), predicted).mape < (10 if protocol != "P4" else 40)
    with pytest.raises(NotFittedError):
        regressor.predict(pairs)


def test_pair_features_refuse_what_they_cannot_take(pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match="unknown kind of features 'raw'; known are derived, paper"):
        PairFeatures("raw").fit(pairs)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no pairs"):
        PairFeatures().fit([])
