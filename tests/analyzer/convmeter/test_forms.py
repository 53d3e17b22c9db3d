"""Each form against what it must find, what it must not believe, and the equations of the paper."""

import numpy as np
import pandas as pd
import pytest
from made_points import made_points

from epochcast.analyzer.backends.convmeter.forms import Default, Paper
from epochcast.analyzer.backends.convmeter.predictor import RECIPES, Recipe


def _eq3(points: pd.DataFrame, f: float = 2e-14, i: float = 3e-12, o: float = 5e-12, c: float = 1e-3) -> np.ndarray:
    return (points["batch"] * (f * points["flops"] + i * points["conv_inputs"] + o * points["conv_outputs"]) + c).to_numpy()


def test_the_papers_equation_is_found_exactly():
    points, others = made_points(), made_points(seed=1)
    fitted = Paper("forward").fit(points, _eq3(points))
    np.testing.assert_allclose(fitted.fitted["one"]["forward"], [2e-14, 3e-12, 5e-12, 1e-3], rtol=1e-5)
    np.testing.assert_allclose(fitted.predict(others), _eq3(others), rtol=1e-6)


def test_an_update_on_one_device_is_a_multiple_of_the_layers_and_on_several_eq_4():
    one, four = made_points(), made_points(devices=4, seed=3)
    eight = made_points(devices=8, seed=4)
    several = pd.concat([four, eight], ignore_index=True)
    exchange = 1e-5 * several["layers"] + 2e-10 * several["weights"] + 3e-3 * several["devices"]
    points = pd.concat([one, several], ignore_index=True)
    fitted = Paper("update").fit(points, np.r_[4e-5 * one["layers"], exchange])
    np.testing.assert_allclose(fitted.fitted["one"]["update"], [4e-5], rtol=1e-6)
    np.testing.assert_allclose(fitted.fitted["several"]["update"], [1e-5, 2e-10, 3e-3], rtol=1e-6)


def test_on_several_devices_backward_pass_and_update_have_seven_coefficients():
    points = pd.concat([made_points(devices=4, seed=3), made_points(devices=8, seed=4)], ignore_index=True)
    points["forward_seconds"], points["backward_seconds"] = _eq3(points), 2 * _eq3(points)
    points["update_seconds"] = 1e-5 * points["layers"] + 2e-10 * points["weights"] + 3e-3 * points["devices"]
    together = [4e-14, 6e-12, 1e-11, 2e-3, 1e-5, 2e-10, 3e-3]
    step = points[["forward_seconds", "backward_seconds", "update_seconds"]].sum(axis=1).to_numpy()
    fitted = Paper("step").fit(points, step)
    np.testing.assert_allclose(fitted.fitted["several"]["step"], together, rtol=1e-4)
    np.testing.assert_allclose(fitted.predict(points), step, rtol=1e-6)
    whole = Paper("step").fit(points.assign(forward_seconds=np.nan), step).fitted["several"]
    np.testing.assert_allclose(whole["step"], np.add(together, [2e-14, 3e-12, 5e-12, 1e-3, 0, 0, 0]), rtol=1e-4)


def test_the_default_passes_over_points_of_several_devices():
    one, two = made_points(40), made_points(40, seed=2, devices=2)
    both = pd.concat([one, two], ignore_index=True)
    seconds = np.r_[_eq3(one), 100 * _eq3(two)]
    alone = Default("forward").fit(one, _eq3(one)).predict(one)
    np.testing.assert_allclose(Default("forward").fit(both, seconds).predict(one), alone)


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_kept_predicts_the_same(recipe: Recipe):
    points = made_points(40)
    for phase in ("inference", "update", "step"):
        fitted = RECIPES[recipe](phase).fit(points, _eq3(points))
        again = RECIPES[recipe](phase, fitted.fitted)
        np.testing.assert_allclose(again.predict(made_points(seed=5)), fitted.predict(made_points(seed=5)), rtol=1e-3)
