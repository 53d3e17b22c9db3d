"""Each form against what it must find, what it must not believe, and the equations of the paper."""

import numpy as np
import pandas as pd
import pytest
from made_points import made_points

from epochcast.analyzer.backends.convmeter.forms.corrected import Corrected
from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.analyzer.backends.convmeter.forms.equations import Equations
from lab.rivals.convmeter import FORMS


def _eq3(points: pd.DataFrame, f: float = 2e-14, i: float = 3e-12, o: float = 5e-12, c: float = 1e-3) -> np.ndarray:
    return (points["batch"] * (f * points["flops"] + i * points["conv_inputs"] + o * points["conv_outputs"]) + c).to_numpy()


def test_the_papers_equation_is_found_exactly():
    points, others = made_points(), made_points(seed=1)
    for form in (Equations.paper, Equations.relative):
        fitted = form("forward").fit(points, _eq3(points))
        np.testing.assert_allclose(fitted.coefficients["one"]["forward"], [2e-14, 3e-12, 5e-12, 1e-3], rtol=1e-5)
        np.testing.assert_allclose(fitted.predict(others), _eq3(others), rtol=1e-6)


def test_an_update_on_one_device_is_a_multiple_of_the_layers_and_on_several_eq_4():
    one, four = made_points(), made_points(devices=4, seed=3)
    eight = made_points(devices=8, seed=4)
    several = pd.concat([four, eight], ignore_index=True)
    exchange = 1e-5 * several["layers"] + 2e-10 * several["weights"] + 3e-3 * several["devices"]
    points = pd.concat([one, several], ignore_index=True)
    fitted = Equations.paper("update").fit(points, np.r_[4e-5 * one["layers"], exchange])
    np.testing.assert_allclose(fitted.coefficients["one"]["update"], [4e-5], rtol=1e-6)
    np.testing.assert_allclose(fitted.coefficients["several"]["update"], [1e-5, 2e-10, 3e-3], rtol=1e-6)
    relative_errors = Equations.relative("update").fit(several, exchange.to_numpy())
    np.testing.assert_allclose(relative_errors.predict(several), exchange, rtol=1e-3)


def test_on_several_devices_backward_pass_and_update_have_seven_coefficients():
    points = pd.concat([made_points(devices=4, seed=3), made_points(devices=8, seed=4)], ignore_index=True)
    points["forward_seconds"], points["backward_seconds"] = _eq3(points), 2 * _eq3(points)
    points["update_seconds"] = 1e-5 * points["layers"] + 2e-10 * points["weights"] + 3e-3 * points["devices"]
    together = [4e-14, 6e-12, 1e-11, 2e-3, 1e-5, 2e-10, 3e-3]
    step = points[["forward_seconds", "backward_seconds", "update_seconds"]].sum(axis=1).to_numpy()
    fitted = Equations.paper("step").fit(points, step)
    np.testing.assert_allclose(fitted.coefficients["several"]["step"], together, rtol=1e-4)
    np.testing.assert_allclose(fitted.predict(points), step, rtol=1e-6)
    whole = Equations.paper("step").fit(points.assign(forward_seconds=np.nan), step).coefficients["several"]
    np.testing.assert_allclose(whole["step"], np.add(together, [2e-14, 3e-12, 5e-12, 1e-3, 0, 0, 0]), rtol=1e-4)


def test_relative_errors_count_alike_for_short_and_long():
    points = made_points()
    seconds = _eq3(points)
    disturbed = np.where(seconds == seconds.max(), 3 * seconds, seconds)  # one long measurement is wrong
    short = seconds < np.median(seconds)

    def error(form: str) -> float:
        predicted = FORMS[form]("forward").fit(points, disturbed).predict(points)
        return float(np.abs(predicted / seconds - 1)[short].max())

    assert error("relative") < 0.2 < error("paper")


def test_networks_alike_share_what_they_are_off_by_and_others_do_not():
    points = made_points(40, families=2)
    alike = points["family"] == "family0"
    seconds = _eq3(points)
    for kind in ("linear", "attention", "pooling"):
        points.loc[alike, [f"{kind}_traffic", f"{kind}_flops", f"{kind}_operators"]] = 0.0
    points.loc[alike, "narrow_flops"] = points.loc[alike, "flops"]
    off = np.where(alike, 1.5, 1.0) * seconds
    fitted = Corrected("forward").fit(points, off)
    near = points[alike].assign(conv_inputs=lambda table: 1.05 * table["conv_inputs"])
    by_pooled = np.abs(np.log(fitted.pooled.predict(near) / off[alike])).mean()
    assert np.abs(np.log(fitted.predict(near) / off[alike])).mean() < 0.5 * by_pooled
    assert fitted.judge(near)[1].max() < 0.5


def test_far_from_all_measured_networks_nothing_is_corrected():
    points = made_points(40)
    fitted = Corrected("forward").fit(points, _eq3(points) * np.random.default_rng(3).lognormal(0, 0.3, 40))
    strange = points.assign(
        narrow_flops=1e3 * points["flops"],
        concatenation_traffic=1e12,
        conv_inputs=1e3 * points["conv_inputs"],
        weights=1e3 * points["weights"],
    )
    np.testing.assert_allclose(fitted.predict(strange), fitted.pooled.predict(strange), rtol=0.05)
    assert fitted.judge(strange)[1].min() > 0.9


def test_the_default_leans_on_the_form_that_predicts_other_families():
    points = made_points(64)
    simple = _eq3(points)  # the paper's terms are all there is
    cautious = Default("forward").fit(points, simple)
    assert cautious.weights[2] > 0.5
    by_kind = (points["batch"] * (1e-10 * points["elementwise_traffic"] + 1e-11 * points["spatial_traffic"])).to_numpy()
    kinds = Default("forward").fit(points, by_kind)
    assert kinds.weights[2] < 0.1
    np.testing.assert_allclose(kinds.predict(points), by_kind, rtol=0.2)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_predicts_the_same(form: str):

    points = made_points(40)
    for phase in ("inference", "update", "step"):
        fitted = FORMS[form](phase).fit(points, _eq3(points))
        again = FORMS[form](phase).restore(fitted.arrays())
        np.testing.assert_allclose(again.predict(made_points(seed=5)), fitted.predict(made_points(seed=5)), rtol=1e-3)
