from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from epochcast.regressor import Catalog, InputError, LatencyPredictor, Profile
from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import FEWEST, MOST_PAIRS, ROUTE, Calibration, calibrate
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.telemetry import statistics_of
from lab.rivals.latency.prior import prior_log_ratio

NEW = "V100 SXM2 16GB"
FACTOR = 0.9  # what conftest's made-up law multiplies the prior by on the new GPU


def prior_answers(pairs: Sequence[Pair]) -> Answers:
    """The prior as the base: its errors on the made-up profiles are the law's factor, and noise."""
    one = np.ones(len(pairs))
    route = np.full(len(pairs), "specifications")
    return Answers(prior_log_ratio(pairs), one, one, route, route, np.full(len(pairs), ""), np.full((len(pairs), 4), np.nan))


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
    assert after.routes.tolist() == ["specifications", ROUTE]
    assert (after.log_ratio[0], after.scale[0]) == (base.log_ratio[0], base.scale[0])


def test_anchors_without_telemetry_correct_too(pairs: list[Pair], anchors: list[Pair], others: list[Pair]) -> None:
    bare = [replace(pair, source=replace(pair.source, metrics={}, feature_set="none")) for pair in anchors]
    after = Calibration.fit(NEW, bare, prior_answers(anchors)).correct(others, prior_answers(others))
    into = [pair.target_gpu.name == NEW for pair in others]
    assert errors(after, others, into).mean() < 0.6 * errors(prior_answers(others), others, into).mean()


def test_it_equals_textbook_gaussian_process_regression(anchors: list[Pair], others: list[Pair]) -> None:
    """With one pair per workload, all from one GPU, the kernel is one that scikit-learn has."""
    some, asked = ([pair for pair in of if pair.gpus == ("T4", NEW)] for of in (anchors, others))
    base = prior_answers(some)
    X, y = statistics_of(some), np.log(actual_ratio(some)) - base.log_ratio
    kernel = ConstantKernel(0.1**2 + 0.05**2) + 0.1**2 * Matern(15**0.5, nu=1.5) + WhiteKernel(0.05**2 + 0.04**2)
    centre, spread = X.mean(axis=0), np.where(X.std(axis=0) > 1e-3, X.std(axis=0), 1.0)
    naive = GaussianProcessRegressor(kernel, optimizer=None, alpha=0).fit((X - centre) / spread, y)
    mean, deviation = naive.predict((statistics_of(asked) - centre) / spread, return_std=True)
    after = Calibration.fit(NEW, some, base).correct(asked, prior_answers(asked))
    np.testing.assert_allclose(after.log_ratio - prior_answers(asked).log_ratio, mean, rtol=1e-6)
    np.testing.assert_allclose(after.scale, deviation / (0.1**2 + 0.1**2 + 0.05**2 + 0.05**2 + 0.04**2) ** 0.5, rtol=1e-6)


def test_too_few_workloads_and_too_many_pairs_are_refused(anchors: list[Pair]) -> None:
    two = [pair for pair in anchors if pair.source.workload in ("0.0", "0.1")]
    with pytest.raises(InputError, match=rf"2 workloads .* on V100 SXM2 16GB and on another GPU; calibration needs {FEWEST}"):
        Calibration.fit(NEW, two, prior_answers(two))
    many = anchors * (MOST_PAIRS // len(anchors) + 1)
    with pytest.raises(InputError, match="measured pairs are too many"):
        Calibration.fit(NEW, [pair for pair in many if NEW in pair.gpus] * 2, prior_answers(many))


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (("T4", "A10G", NEW), "was already trained on A10G, T4, V100 SXM2 16GB"),
        (
            ("T4", "A10G"),
            "cover only L4, P100 PCIe 16GB; also measure .* on a GPU that the model knows, such as A10G, T4",
        ),
        ((), "was already trained on A10G, T4, V100 SXM2 16GB"),
    ],
)
def test_data_of_only_known_or_only_new_gpus_are_refused(
    made_up_profiles: list[Profile], catalog: Catalog, known: tuple[str, ...], says: str
) -> None:
    if known:
        recorded = [one for one in made_up_profiles if one.gpu in known]
    else:
        recorded = [replace(one, metrics={}, feature_set="none") for one in made_up_profiles]
    recipe = DefaultRecipe(iterations=5).fit(make_pairs(recorded, catalog))
    names = {"T4": "L4", "A10G": "P100 PCIe 16GB"} if len(known) == 2 else {}
    measured = [replace(one, gpu=names.get(one.gpu, one.gpu)) for one in made_up_profiles if one.gpu in names or not names]
    with pytest.raises(InputError, match=says):
        calibrate(recipe, make_pairs(measured, catalog))


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
    assert (before.route, after.route) == ("specifications", ROUTE)
    assert "corrected by 8 anchor workloads measured on L4" in after.why
    again = calibrated.calibrate(anchors[:12])
    assert [(one.gpu, one.count) for one in again.calibrations] == [("L4", 4)]
