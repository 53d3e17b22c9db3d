import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from epochcast.regressor import Catalog, InputError, LatencyPredictor, Profile
from epochcast.regressor.anchored import Anchoring, with_anchors
from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import FEWEST, ROUTE, Calibration, calibrate
from epochcast.regressor.features import prior_log_ratio
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.residual_process import MOST_PAIRS, ResidualProcess

NEW = "V100 SXM2 16GB"
FACTOR = 0.9  # what conftest's made-up law multiplies the prior by on the new GPU


def prior_answers(pairs: Sequence[Pair]) -> Answers:
    """The prior as the base: its errors on the made-up profiles are the law's factor, and noise."""
    one = np.ones(len(pairs))
    sources = np.array([pair.source_gpu.name for pair in pairs])
    return Answers(prior_log_ratio(pairs), one, one, np.full(len(pairs), "residual"), sources, np.full(len(pairs), ""))


@pytest.fixture(scope="module")
def anchors(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.source.workload in {f"0.{number}" for number in range(8)}]


@pytest.fixture(scope="module")
def others(pairs: list[Pair], anchors: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair not in anchors]


@pytest.fixture(scope="module")
def calibration(anchors: list[Pair]) -> Calibration:
    return Calibration.fit(NEW, anchors, prior_answers(anchors))


def errors(answers: Answers, pairs: Sequence[Pair], which: Sequence[bool]) -> np.ndarray:
    return np.abs(answers.log_ratio - np.log(actual_ratio(pairs)))[np.array(which)]


def test_answers_into_and_out_of_the_gpu_get_better(calibration: Calibration, others: list[Pair]) -> None:
    base = prior_answers(others)
    after = calibration.correct(others, base)
    into = [pair.target_gpu.name == NEW for pair in others]
    out = [pair.source_gpu.name == NEW for pair in others]
    for which in (into, out):
        assert errors(after, others, which).mean() < 0.5 * errors(base, others, which).mean()
        assert set(after.routes[np.array(which)]) == {ROUTE}
    shift = (after.log_ratio - base.log_ratio)[np.array([pair.source_gpu.name == "T4" for pair in others]) & np.array(into)]
    assert shift.mean() == pytest.approx(np.log(FACTOR), abs=0.03)


def test_pairs_between_other_gpus_stay_as_they_are(calibration: Calibration, others: list[Pair]) -> None:
    apart = [pair for pair in others if NEW not in (pair.source_gpu.name, pair.target_gpu.name)]
    base, after = prior_answers(apart), calibration.correct(apart, prior_answers(apart))
    np.testing.assert_array_equal(after.log_ratio, base.log_ratio)
    np.testing.assert_array_equal(after.routes, base.routes)


def test_answers_to_a_gpu_without_anchors_stay_as_they_are(
    calibration: Calibration, make_profile: Callable[..., Profile], catalog: Catalog
) -> None:
    """Anchors say how answers out of the GPU err on the GPUs that they were measured on, and of a third nothing."""
    from_new, into_new = (
        Pair(make_profile(NEW), catalog[NEW], catalog["L4"]),
        Pair(make_profile("L4"), catalog["L4"], catalog[NEW]),
    )
    base = prior_answers([from_new, into_new])
    after = calibration.correct([from_new, into_new], base)
    assert after.routes.tolist() == ["residual", ROUTE]
    assert (after.log_ratio[0], after.scale[0]) == (base.log_ratio[0], base.scale[0])


def test_a_profile_without_the_metrics_stays_as_it_is(
    calibration: Calibration, make_profile: Callable[..., Profile], catalog: Catalog
) -> None:
    asked = [Pair(make_profile(metrics={}, feature_set="none"), catalog["T4"], catalog[NEW])]
    assert calibration.correct(asked, prior_answers(asked)).routes.tolist() == ["residual"]


def test_the_deviation_grows_away_from_the_anchors_and_falls_with_their_number(
    anchors: list[Pair], make_profile: Callable[..., Profile], catalog: Catalog
) -> None:
    def scale_at(busy: float, workloads: int) -> float:
        some = [pair for pair in anchors if int(str(pair.source.workload)[2:]) < workloads]
        asked = [Pair(make_profile(busy=busy), catalog["T4"], catalog[NEW])]
        return float(Calibration.fit(NEW, some, prior_answers(some)).correct(asked, prior_answers(asked)).scale[0])

    seen = anchors[0].source.metrics["gpu_utilization"]["mean"]
    assert scale_at(0.01, 8) > 1.1 * scale_at(seen, 8)
    assert scale_at(seen, 3) > scale_at(seen, 8)


def test_a_pair_that_the_recipe_is_less_sure_of_gets_a_wider_answer(calibration: Calibration, others: list[Pair]) -> None:
    base = prior_answers(others)
    unsure = replace(base, scale=3 * base.scale)
    into = np.flatnonzero([pair.target_gpu.name == NEW for pair in others])
    wide, narrow = (calibration.correct(others, answers).scale[into] for answers in (unsure, base))
    np.testing.assert_allclose(wide, 3 * narrow)


def test_it_equals_textbook_gaussian_process_regression() -> None:
    """With one pair per workload, all from one GPU, the kernel is one that scikit-learn has."""
    rng = np.random.default_rng(0)
    X, y, asked = rng.normal(size=(9, 4)), rng.normal(0, 0.1, 9), rng.normal(size=(5, 4))
    process = ResidualProcess(X, ["T4"] * 9, [str(number) for number in range(9)], y, 1.0)
    kernel = ConstantKernel(0.1**2 + 0.05**2) + 0.1**2 * Matern(2.0, nu=1.5) + WhiteKernel(0.05**2 + 0.04**2)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    naive = GaussianProcessRegressor(kernel, optimizer=None, alpha=0).fit((X - centre) / spread, y)
    for ours, theirs in zip(
        process.predict(asked, ["T4"] * 5), naive.predict((asked - centre) / spread, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_the_state_survives_json(calibration: Calibration, others: list[Pair]) -> None:
    again = Calibration.from_state(json.loads(json.dumps(calibration.state())))
    base = prior_answers(others)
    np.testing.assert_array_equal(again.correct(others, base).log_ratio, calibration.correct(others, base).log_ratio)
    np.testing.assert_array_equal(again.correct(others, base).scale, calibration.correct(others, base).scale)
    assert (again.gpu, again.workloads) == (NEW, 8)


def test_too_few_workloads_and_too_many_pairs_are_refused(anchors: list[Pair]) -> None:
    two = [pair for pair in anchors if pair.source.workload in ("0.0", "0.1")]
    with pytest.raises(InputError, match=rf"2 workloads .* on V100 SXM2 16GB and on another GPU; calibration needs {FEWEST}"):
        Calibration.fit(NEW, two, prior_answers(two))
    many = MOST_PAIRS + 1
    with pytest.raises(InputError, match=f"{many} measured pairs are too many"):
        ResidualProcess(np.zeros((many, 2)), ["T4"] * many, ["w"] * many, np.zeros(many), 1.0)


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (("T4", "A10G", NEW), "was already trained on A10G, T4, V100 SXM2 16GB"),
        (("T4", "A10G"), "cover only L4, P100 PCIe 16GB; also measure the same workloads on one of A10G, T4"),
        ((), "was trained without telemetry"),
    ],
)
def test_data_of_only_known_or_only_new_gpus_are_refused(
    made_up_profiles: list[Profile], catalog: Catalog, known: tuple[str, ...], says: str
) -> None:
    if known:
        recorded = [one for one in made_up_profiles if one.gpu in known]
    else:
        recorded = [replace(one, metrics={}, feature_set="none") for one in made_up_profiles]
    recipe = DefaultRecipe(trees=5).fit(make_pairs(recorded, catalog))
    names = {"T4": "L4", "A10G": "P100 PCIe 16GB"} if len(known) == 2 else {}
    measured = [replace(one, gpu=names.get(one.gpu, one.gpu)) for one in made_up_profiles if one.gpu in names or not names]
    with pytest.raises(InputError, match=says):
        calibrate(recipe, make_pairs(measured, catalog))


def test_anchors_are_left_out_of_the_test_rows(pairs: list[Pair]) -> None:
    orders = {gpu: [f"0.{number}" for number in range(24)] for gpu in ("T4", "A10G", NEW)}
    rows, answers = with_anchors(pairs, prior_answers(pairs), 20, orders)
    assert {pairs[row].source.workload for row in rows.tolist()} == {"0.20", "0.21", "0.22", "0.23"}
    assert len(rows) == len(answers.log_ratio) == 4 * 3 * 2
    rows, untouched = with_anchors(pairs, prior_answers(pairs), 0, orders)
    assert set(untouched.routes.tolist()) == {"residual"} and len(rows) == len(pairs)


@pytest.mark.parametrize(
    ("count", "says"), [(2, "calibration with 2 anchors is not possible"), (24, "leave no workload to test")]
)
def test_impossible_numbers_of_anchors_are_refused(pairs: list[Pair], count: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        with_anchors(pairs, prior_answers(pairs), count)


def test_what_anchors_bring_is_measured(pairs: list[Pair]) -> None:
    anchoring = Anchoring.measure(pairs, prior_answers(pairs), prior_answers(pairs))
    assert list(anchoring.mape) == [0, 3, 5, 10, 20]
    assert anchoring.mape[10] < 0.6 * anchoring.mape[0]
    assert anchoring.interval.protocol == "P4-anchors"
    again = Anchoring.from_state(json.loads(json.dumps(anchoring.state())))
    assert again == anchoring


def test_on_the_public_data_the_targets_are_met_and_the_interval_holds(
    public_profiles: list[Profile], catalog: Catalog
) -> None:
    """P4 with the prior alone as the base, so that nothing must be trained; research: 11.9 / 9.6 / 8.1, random anchors."""
    pairs = make_pairs(public_profiles, catalog)
    anchoring = Anchoring.measure(pairs, prior_answers(pairs), prior_answers(pairs))
    assert anchoring.mape[5] < 11.5 and anchoring.mape[10] < 9.6 and anchoring.mape[20] < 8.1
    rows, answers = with_anchors(pairs, prior_answers(pairs), 10)
    log_errors = np.abs(answers.log_ratio - np.log(actual_ratio([pairs[row] for row in rows.tolist()])))
    assert 0.85 < np.mean(log_errors <= anchoring.interval.half_widths(answers)) < 0.95


def test_a_calibrated_model_is_saved_loaded_and_says_so(
    made_up_profiles: list[Profile], make_profile: Callable[..., Profile], tmp_path: Path
) -> None:
    some = [replace(one, precision="tf32") for one in made_up_profiles[:24]]
    anchors = [replace(one, gpu="L4") if one.gpu == NEW else one for one in some]
    plain = LatencyPredictor.load()
    calibrated = plain.calibrate(anchors)
    calibrated.save(tmp_path / "model")
    job = make_profile("T4", precision="tf32")
    before, after = (model.predict(job, ["L4"])[0] for model in (plain, LatencyPredictor.load(tmp_path / "model")))
    assert after == calibrated.predict(job, ["L4"])[0]
    assert (before.route, after.route) == ("residual", ROUTE)
    assert "corrected by 8 anchor workloads measured on L4" in after.why
    again = calibrated.calibrate(anchors[:12])
    assert [(one.gpu, one.workloads) for one in again.calibrations] == [("L4", 4)]
