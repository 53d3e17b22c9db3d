import json
import math

import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, Profile, evaluate, evaluate_split
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import conformal_quantile, score

FAST = DefaultRecipe(trees=60, iterations=150, learning_rate=0.15)


def test_scores_by_hand() -> None:
    scores = score(np.array([1.0, 2.0, 4.0, 5.0]), np.array([1.1, 1.0, 4.0, np.nan]))
    assert scores.mape == pytest.approx((10 + 50 + 0) / 3) and scores.median_ape == pytest.approx(10)
    assert scores.rmse == pytest.approx(math.sqrt((0.01 + 1) / 3))
    assert scores.r2 == pytest.approx(1 - 1.01 / (16 / 9 + 1 / 9 + 25 / 9))
    assert scores.n == 3 and scores.coverage == 0.75
    assert score(np.array([1.0]), np.array([np.nan])).coverage == 0


def test_conformal_quantile_is_the_right_order_statistic() -> None:
    assert conformal_quantile(np.arange(1.0, 100.0)) == 90
    assert conformal_quantile(-np.arange(1.0, 20.0)) == 18
    assert conformal_quantile(np.array([3.0, 1.0])) == 3
    rng = np.random.default_rng(0)
    inside = [abs(rng.normal()) <= conformal_quantile(rng.normal(size=99)) for _ in range(2000)]
    assert 0.87 < np.mean(inside) < 0.93


def test_evaluation_is_json_with_the_settings_that_gave_it(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    result = json.loads(json.dumps(evaluate(made_up_profiles, catalog, recipe="prior", seeds=(0, 1)).to_json()))
    assert {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by", "spread"} <= set(result)
    assert (result["recipe"], result["protocol"], result["settings"]["seeds"]) == ("prior", "P2", [0, 1])
    assert result["settings"]["profiles"] == 72 and result["n"] == result["settings"]["pairs"] == 144
    assert set(result["by"]) == {"T4", "A10G", "V100 SXM2 16GB"}
    assert sum(one["n"] for one in result["by"].values()) == 144
    assert result["interval_coverage"] is None


def test_what_no_recipe_can_answer_is_said(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    result = evaluate(made_up_profiles, catalog, recipe="pair-median", protocol="P4")
    assert result.n == 0 and result.coverage == 0
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["mape"] is None


def test_wrong_names(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    with pytest.raises(InputError, match="unknown recipe 'best'; known are default, paper"):
        evaluate(made_up_profiles, catalog, recipe="best")
    with pytest.raises(InputError, match="unknown protocol"):
        evaluate(made_up_profiles, catalog, recipe="prior", protocol="P5")


def test_split_learns_from_the_first_file_only(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    cut = 3 * 18
    recipe = DefaultRecipe(trees=20, iterations=40, learning_rate=0.2)
    whole = evaluate_split(made_up_profiles[:cut], made_up_profiles[cut:], catalog, recipe=recipe)
    assert whole.settings["workloads_in_both"] == 0 and whole.n == 36 and whole.mape < 15
    assert whole.interval_coverage is not None and whole.interval_coverage >= 0.7
    # A test file that lost all but one workload gives that workload the same figures.
    one = evaluate_split(made_up_profiles[:cut], made_up_profiles[cut : cut + 3], catalog, recipe=recipe)
    again = evaluate_split(made_up_profiles[:cut], made_up_profiles[cut : cut + 3], catalog, recipe=recipe)
    assert one == again and one.n == 6
    shared = evaluate_split(made_up_profiles, made_up_profiles, catalog, recipe="prior")
    assert shared.settings["workloads_in_both"] == 24


# Bounds on the public file with a third of the trees and one shuffle; benchmarks/regressor/accuracy.py has the full figures.
def test_public_new_workload(public_profiles: list[Profile], catalog: Catalog) -> None:
    result = evaluate(public_profiles, catalog, recipe=FAST, protocol="P2", seeds=(0,))
    assert result.n == 1090 and result.mape <= 6.5
    assert result.interval_coverage is not None and 0.85 <= result.interval_coverage <= 0.95
    baseline = evaluate(public_profiles, catalog, recipe="pair-median", protocol="P2", seeds=(0,))
    assert result.mape < baseline.mape / 3


def test_public_new_architecture(public_profiles: list[Profile], catalog: Catalog) -> None:
    assert evaluate(public_profiles, catalog, recipe=FAST, protocol="P3").mape <= 8.8


def test_public_new_gpu(public_profiles: list[Profile], catalog: Catalog) -> None:
    assert evaluate(public_profiles, catalog, recipe=FAST, protocol="P4").mape <= 16
    assert evaluate(public_profiles, catalog, recipe="prior", protocol="P4").mape <= 16
