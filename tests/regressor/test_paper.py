from collections.abc import Callable

import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.features import paper_features
from epochcast.regressor.gpus import FIGURES
from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes import PaperRecipe
from lab.rivals.latency.single_models import RandomForestRecipe

pytestmark = pytest.mark.usefixtures("in_threads")


def test_the_stack_is_that_of_section_iii_c() -> None:
    stack = PaperRecipe()._regressor()
    assert isinstance(stack, StackingRegressor) and isinstance(stack.final_estimator, HistGradientBoostingRegressor)
    forest, boosting = (member for _, member in stack.estimators)
    assert forest.get_params() == RandomForestRegressor(random_state=0).get_params()  # library defaults
    assert boosting.get_params()["iterations"] == 1000 and not stack.passthrough


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


def test_what_was_excluded_is_reported(pairs: list[Pair]) -> None:
    recipe = RandomForestRecipe(trees=1).fit(pairs)
    assert recipe.excluded_["sm_active_mean"] == "unavailable"  # the made-up profiles have four NVML metrics
    assert recipe.excluded_["power_mean"] == "constant"
    assert sorted([*recipe.columns_, *recipe.excluded_]) == sorted(paper_features(pairs))


def test_bad_input_is_one_sentence(pairs: list[Pair], make_profile: Callable[..., Profile], catalog: Catalog) -> None:
    with pytest.raises(InputError, match="none of 193 features is present in all 1 pairs"):
        RandomForestRecipe().fit(pairs[:1])
    ratio_only = Pair(make_profile(epoch_s=None), catalog["T4"], catalog["A10G"], 1.0)
    with pytest.raises(InputError, match="need the seconds of an epoch"):
        RandomForestRecipe().fit([ratio_only])
