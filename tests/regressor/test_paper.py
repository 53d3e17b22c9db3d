from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.features import paper_features
from epochcast.regressor.gpus import FIGURES
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes import PaperRecipe
from lab.rivals.latency.single_models import CatBoostRecipe, MeanRecipe, RandomForestRecipe

pytestmark = pytest.mark.usefixtures("in_threads")


def test_the_stack_is_that_of_section_iii_c() -> None:
    stack = PaperRecipe()._regressor()
    assert isinstance(stack, StackingRegressor) and isinstance(stack.final_estimator, HistGradientBoostingRegressor)
    forest, boosting = (member for _, member in stack.estimators)
    assert forest.get_params() == RandomForestRegressor(random_state=0).get_params()  # library defaults
    assert boosting.get_params()["iterations"] == 1000 and not stack.passthrough


def test_mean_is_the_mean_of_its_members(pairs: list[Pair]) -> None:
    forest, boosting, mean = (
        clone(recipe).fit(pairs).predict(pairs)
        for recipe in (RandomForestRecipe(trees=5), CatBoostRecipe(iterations=20), MeanRecipe(trees=5, iterations=20))
    )
    assert mean == pytest.approx((forest + boosting) / 2)


def test_feature_sets(pairs: list[Pair]) -> None:
    static = {f"{figure}_ratio" for figure in FIGURES}
    columns = {
        (features, latency): RandomForestRecipe(features, latency, trees=1).fit(pairs).columns_
        for features in ("all", "dynamic", "static")
        for latency in (True, False)
    }
    assert set(columns["static", True]) <= {*static, "latency"} and "sm_count_ratio" in columns["static", True]
    assert not set(columns["dynamic", True]) & static and "gpu_utilization_mean" in columns["dynamic", True]
    for features in ("all", "dynamic", "static"):
        assert [*columns[features, False], "latency"] == columns[features, True]
    assert set(columns["dynamic", False]) | set(columns["static", False]) == set(columns["all", False])


def test_dynamic_features_do_not_know_the_target(pairs: list[Pair]) -> None:
    """Table V's 71.61 %: without static features every target of a profile gets the same answer."""
    recipe = RandomForestRecipe("dynamic", trees=5).fit(pairs)
    first = pairs[0]
    other = replace(first, target_gpu=next(pair.target_gpu for pair in pairs if pair.target_gpu != first.target_gpu))
    answers = recipe.predict([first, other])
    assert answers[0] == answers[1]


def test_what_was_excluded_is_reported(pairs: list[Pair]) -> None:
    recipe = RandomForestRecipe(trees=1).fit(pairs)
    assert recipe.excluded_["sm_active_mean"] == "unavailable"  # the made-up profiles have four NVML metrics
    assert recipe.excluded_["power_mean"] == "constant"
    assert sorted([*recipe.columns_, *recipe.excluded_]) == sorted(paper_features(pairs))


def test_a_metric_that_training_had_may_be_missing_later(pairs: list[Pair]) -> None:
    recipe = RandomForestRecipe(trees=5).fit(pairs)
    metrics = {name: values for name, values in pairs[0].source.metrics.items() if name != "memory_utilization"}
    assert np.isfinite(recipe.predict([replace(pairs[0], source=replace(pairs[0].source, metrics=metrics))])).all()


def test_bad_input_is_one_sentence(pairs: list[Pair], make_profile: Callable[..., Profile], catalog: Catalog) -> None:
    with pytest.raises(InputError, match="none of 193 features is present in all 1 pairs"):
        RandomForestRecipe().fit(pairs[:1])
    ratio_only = Pair(make_profile(epoch_s=None), catalog["T4"], catalog["A10G"], 1.0)
    with pytest.raises(InputError, match="need the seconds of an epoch"):
        RandomForestRecipe().fit([ratio_only])
