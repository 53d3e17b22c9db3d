"""Each form against what it must find, what it must not believe, and the equations of the paper."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from made_points import made_points
from sklearn.linear_model import LinearRegression

from epochcast.analyzer.backends.convmeter.forms.corrected import Corrected
from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.analyzer.backends.convmeter.forms.equations import Equations
from epochcast.analyzer.backends.convmeter.forms.least_squares import relative, robust
from epochcast.analyzer.backends.convmeter.forms.out_of_fold import folds, out_of_fold
from epochcast.analyzer.errors import InputError
from lab.rivals.convmeter import FORMS


def _eq3(points: pd.DataFrame, f: float = 2e-14, i: float = 3e-12, o: float = 5e-12, c: float = 1e-3) -> np.ndarray:
    return (points["batch"] * (f * points["flops"] + i * points["conv_inputs"] + o * points["conv_outputs"]) + c).to_numpy()


def test_the_papers_equation_is_found_exactly():
    points, others = made_points(), made_points(seed=1)
    for form in (Equations.paper, Equations.relative):
        fitted = form("forward").fit(points, _eq3(points))
        np.testing.assert_allclose(fitted.coefficients["one"]["forward"], [2e-14, 3e-12, 5e-12, 1e-3], rtol=1e-5)
        np.testing.assert_allclose(fitted.predict(others), _eq3(others), rtol=1e-6)


def test_the_papers_fit_is_ordinary_least_squares():
    points = made_points()
    noisy = _eq3(points) * np.random.default_rng(2).lognormal(0, 0.3, len(points))
    X = np.stack([points["batch"] * points[name] for name in ("flops", "conv_inputs", "conv_outputs")], axis=1)
    other = LinearRegression().fit(X / X.max(axis=0), noisy)
    assert np.allclose(Equations.paper("inference").fit(points, noisy).predict(points), other.predict(X / X.max(axis=0)))


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


def test_a_step_is_the_sum_of_its_phases_where_they_were_measured():
    points = made_points().assign(forward_seconds=0.1, backward_seconds=0.2)
    points["update_seconds"] = 1e-3 * points["layers"]
    step = (points["forward_seconds"] + points["backward_seconds"] + points["update_seconds"]).to_numpy()
    fitted = Equations.paper("step").fit(points, step)
    assert set(fitted.coefficients["one"]) == {"forward", "backward", "update"}
    np.testing.assert_allclose(fitted.predict(points), step, rtol=1e-6)
    several = points.assign(devices=2.0)
    assert set(Equations.paper("step").fit(several, step).coefficients["several"]) == {"forward", "step"}


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


def test_where_only_one_device_was_measured_several_have_no_answer():
    points = made_points()
    fitted = Equations.relative("step").fit(points, _eq3(points))
    assert np.isnan(fitted.predict(points.assign(devices=2.0))).all()


def test_relative_errors_count_alike_for_short_and_long():
    points = made_points()
    seconds = _eq3(points)
    disturbed = np.where(seconds == seconds.max(), 3 * seconds, seconds)  # one long measurement is wrong
    short = seconds < np.median(seconds)

    def error(form: str) -> float:
        predicted = FORMS[form]("forward").fit(points, disturbed).predict(points)
        return float(np.abs(predicted / seconds - 1)[short].max())

    assert error("relative") < 0.2 < error("paper")


def test_least_squares_of_relative_errors_never_has_negative_coefficients():
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(30, 4)) * [1e12, 1e6, 1, 1e-3]
    y = rng.lognormal(size=30)
    assert (relative(X, y) >= 0).all()
    assert (robust(X, y, np.zeros((0, 4))) >= 0).all()


def test_the_robust_loss_does_not_follow_a_fifth_that_is_wrong():
    rng = np.random.default_rng(1)
    X = rng.lognormal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0]
    wrong = np.where(np.arange(60) % 5 == 0, 2 * y, y)
    np.testing.assert_allclose(robust(X, wrong, np.zeros((0, 3))), [1, 2, 3], rtol=0.1)
    assert np.abs(relative(X, wrong) / [1, 2, 3] - 1).max() > 0.1


def test_a_kind_that_no_measured_network_has_is_as_fast_as_the_others():
    points = made_points(60)
    no_depthwise = points.assign(depthwise_flops=0.0, depthwise_traffic=0.0, depthwise_operators=0.0)
    moved = no_depthwise[[f"{kind}_traffic" for kind in _MOVERS]].sum(axis=1)
    seconds = (1e-11 * no_depthwise["batch"] * moved).to_numpy()
    asked = points.iloc[:1].assign(**dict.fromkeys([name for name in points if name.endswith(("_traffic", "_flops"))], 0.0))
    asked = asked.assign(depthwise_traffic=1e8, weights=0.0, operators=0.0, conv_outputs=0.0)
    expected = 1e-11 * asked["batch"].iloc[0] * 1e8
    assert FORMS["layers"]("forward").fit(no_depthwise, seconds).predict(asked)[0] < 0.01 * expected
    assert FORMS["pooled"]("forward").fit(no_depthwise, seconds).predict(asked)[0] == pytest.approx(expected, rel=0.3)


_MOVERS = ("spatial", "pointwise", "grouped", "linear", "attention", "elementwise", "normalisation", "pooling", "concatenation")


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


def test_an_update_follows_its_weights_alone():
    points = made_points()
    seconds = 1e-10 * points["weights"].to_numpy() * np.random.default_rng(4).lognormal(0, 0.3, 40)
    fitted = Corrected("update").fit(points, seconds)
    np.testing.assert_array_equal(fitted.predict(points), fitted.pooled.predict(points))


def test_a_disturbed_measurement_does_not_drag_its_like_along():
    points = made_points(40)
    disturbed = np.where(np.arange(40) == 7, 1e4, 1.0) * _eq3(points)
    fitted = Corrected("forward").fit(points, disturbed)
    assert (fitted.predict(points) / fitted.pooled.predict(points))[7] < np.e


def test_some_of_many_points_make_the_correction(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("epochcast.analyzer.backends.convmeter.forms.corrected._MOST_POINTS", 20)
    points = made_points(60)
    fitted = Corrected("forward").fit(points, _eq3(points))
    assert len(fitted.pull) == 20
    assert np.abs(np.log(fitted.predict(points) / _eq3(points))).max() < 0.3


@pytest.mark.parametrize("phase", ["forward", "step"])
def test_errors_are_measured_over_predicted(phase: str):
    points = made_points(40)
    disturbed = np.where(np.arange(40) == 7, 20.0, 1.0)
    for name in ("forward", "backward", "update"):
        points[f"{name}_seconds"] = _eq3(points) * disturbed
    fitted = FORMS["default"](phase).fit(points, (3 if phase == "step" else 1) * _eq3(points) * disturbed)
    assert 1.5 < fitted.errors[7] == fitted.errors.max()


def test_the_default_leans_on_the_form_that_predicts_other_families():
    points = made_points(64)
    simple = _eq3(points)  # the paper's terms are all there is
    cautious = Default("forward").fit(points, simple)
    assert cautious.weights[2] > 0.5
    by_kind = (points["batch"] * (1e-10 * points["elementwise_traffic"] + 1e-11 * points["spatial_traffic"])).to_numpy()
    kinds = Default("forward").fit(points, by_kind)
    assert kinds.weights[2] < 0.1
    np.testing.assert_allclose(kinds.predict(points), by_kind, rtol=0.2)


def test_the_default_answers_with_few_points_and_on_devices_that_only_one_form_knows():
    points = made_points(6)
    fitted = Default("step").fit(points, _eq3(points))
    assert not fitted.others  # ``layers`` needs ten points
    assert np.isfinite(fitted.predict(made_points(9))).all()
    fewer = Default("step").fit(made_points(10), _eq3(made_points(10)))
    assert set(fewer.others) == {"layers", "relative"}
    assert np.isfinite(fewer.predict(made_points(9))).all()


@pytest.mark.parametrize("form", ["default", "layers", "pooled", "corrected"])
def test_a_step_is_the_sum_of_what_the_form_says_of_its_phases(form: str):
    points, others = made_points(40), made_points(seed=8)
    points["forward_seconds"] = _eq3(points)
    points["backward_seconds"] = 2 * _eq3(points)
    points["update_seconds"] = 1e-10 * points["weights"] + 1e-4
    step = points[["forward_seconds", "backward_seconds", "update_seconds"]].sum(axis=1).to_numpy()
    parts = [
        FORMS[form](phase).fit(points, points[f"{phase}_seconds"].to_numpy()).predict(others)
        for phase in ("forward", "backward", "update")
    ]
    fitted = FORMS[form]("step").fit(points, step)
    np.testing.assert_allclose(fitted.predict(others), sum(parts))
    whole = FORMS[form]("step").fit(points.assign(update_seconds=np.nan), step)
    assert not np.allclose(whole.predict(others), sum(parts), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_predicts_the_same(form: str):

    points = made_points(40)
    for phase in ("inference", "update", "step"):
        fitted = FORMS[form](phase).fit(points, _eq3(points))
        again = FORMS[form](phase).restore(fitted.arrays())
        np.testing.assert_allclose(again.predict(made_points(seed=5)), fitted.predict(made_points(seed=5)), rtol=1e-3)


@pytest.mark.parametrize("form", ["default", "paper", "layers"])
def test_too_few_points_are_refused(form: str):
    with pytest.raises(InputError, match="too few"):
        FORMS[form]("forward").fit(made_points(1), np.ones(1))


def test_folds_keep_families_together_and_hold_every_point_once():
    points = made_points(50, families=9)
    masks = list(folds(points))
    assert (np.sum(masks, axis=0) == 1).all()
    for mask in masks:
        assert not set(points["family"][mask]) & set(points["family"][~mask])
    one_family = points.assign(family="all")
    assert len(list(folds(one_family))) == 8
    for left, right in pairwise(folds(one_family.assign(network="one"))):
        assert not (left & right).any()


def test_out_of_fold_predictions_never_see_their_own_fold():
    points = made_points(30, families=5)
    seen = out_of_fold(points, np.arange(30.0), lambda own, _, others: np.full(len(others), own["family"].nunique()))
    assert (seen == 4).all()
