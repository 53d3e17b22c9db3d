import json
import math
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, LatencyPredictor, Profile
from epochcast.regressor.pairs import make_pairs, target_seconds
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scoring import absolute_percentage_errors, conformal_quantile, score
from lab.evaluate.latency import evaluate, evaluate_model, evaluate_split
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.rivals.latency import RECIPES

FAST = DefaultRecipe(iterations=50)


def test_scores_by_hand() -> None:
    scores = score(np.array([1.0, 2.0, 4.0, 5.0]), np.array([1.1, 1.0, 4.0, np.nan]))
    assert scores.mape == pytest.approx((10 + 50 + 0) / 3) and scores.median_ape == pytest.approx(10)
    assert scores.rmse == pytest.approx(math.sqrt((0.01 + 1) / 3))
    assert scores.r2 == pytest.approx(1 - 1.01 / (16 / 9 + 1 / 9 + 25 / 9))
    assert scores.n == 3 and scores.coverage == 0.75
    assert score(np.array([1.0]), np.array([np.nan])).coverage == 0


def test_ninety_percent_of_the_errors_are_at_most_the_p90(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    result = evaluate(made_up_profiles, catalog, recipe="prior", protocol="P3")
    pairs = make_pairs(made_up_profiles, catalog)
    predicted = out_of_fold(pairs, "P3", RECIPES["prior"]())[0]
    errors = absolute_percentage_errors(target_seconds(pairs), predicted)
    assert np.mean(errors <= result.p90_ape) == pytest.approx(0.9, abs=0.01) and result.median_ape < result.p90_ape


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
    assert set(result["by"]["source_gpu"]) == {"T4", "A10G", "V100 SXM2 16GB"} and not result["by"]["source"]
    assert sum(one["n"] for one in result["by"]["source_gpu"].values()) == 144
    assert result["inside"] is None and result["by"]["source_gpu"]["T4"]["inside"] is None
    assert sum(one["n"] for one in result["by"]["target_gpu"].values()) == 144
    assert result["fastest_n"] == 72


def test_split_learns_from_the_first_file_only(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    cut = 3 * 18
    recipe = DefaultRecipe(iterations=5)
    whole = evaluate_split(made_up_profiles[:cut], made_up_profiles[cut:], catalog, recipe=recipe, stated="type")
    assert whole.settings["workloads_in_both"] == 0 and whole.n == 36 and whole.mape < 15
    assert whole.inside >= 0.7 and whole.fastest_n == 18 and whole.mape_by_group < 15
    shared = evaluate_split(made_up_profiles, made_up_profiles, catalog, recipe="prior")
    assert shared.settings["workloads_in_both"] == 24


def test_no_job_is_known_by_name(made_up_profiles: list[Profile], catalog: Catalog) -> None:
    """Neither by its own rows in training nor by a family that has its name."""
    profiles = [replace(profile, metrics={}, feature_set="none", type="cnn") for profile in made_up_profiles]
    others, tested = profiles[:-3], [replace(profile, group=None) for profile in profiles[-3:]]
    named = [replace(profile, workload=others[0].group) for profile in tested]
    recipe = DefaultRecipe(iterations=5)
    alone = evaluate_split(others, tested, catalog, recipe=recipe).mape
    assert evaluate_split(profiles, tested, catalog, recipe=recipe).mape == pytest.approx(alone)
    assert evaluate_split(others, named, catalog, recipe=recipe).mape == pytest.approx(alone)
    shipped, named = LatencyPredictor.load(), [replace(profile, workload="resnet") for profile in tested]
    assert evaluate_model(shipped, named).mape == evaluate_model(shipped, tested).mape


# Bounds on the public file with a tenth of the trees and one shuffle. The shipped model's own tests bound P3 and P4;
# lab/speed/regressor/accuracy.py has the full figures.
def test_public_new_workload(public_profiles: list[Profile], catalog: Catalog) -> None:
    result = evaluate(public_profiles, catalog, recipe=FAST, protocol="P2", seeds=(0,))
    assert result.n == 1090 and result.mape <= 5.7 and result.r2 >= 0.975
    assert all(0.85 <= figures["inside"] <= 0.95 for figures in result.by["source_gpu"].values())
    assert result.half_width <= 12 and result.interval_score < result.constant_width_score
    assert result.fastest_n == 408 and result.fastest_right >= 0.83 and result.fastest_regret < 2.5
    baseline = evaluate(public_profiles, catalog, recipe="pair-median", protocol="P2", seeds=(0,))
    assert result.mape < baseline.mape / 3 and baseline.fastest_right < 0.7
