from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.arrays import part
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs, target_seconds
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, SpeedsRecipe
from epochcast.regressor.scoring import score
from epochcast.regressor.telemetry_correction import TelemetryCorrection

RECIPES = {"default": DefaultRecipe, "paper": PaperRecipe, "speeds": SpeedsRecipe}
# Small enough to fit in a moment; a recipe has some of them or none.
SMALL = {"trees": 20, "iterations": 20, "cv": 2}

pytestmark = pytest.mark.usefixtures("in_threads")


def small(name: str) -> Any:
    recipe: Any = RECIPES[name]()
    return recipe.set_params(**{key: value for key, value in SMALL.items() if key in recipe.get_params()})


@pytest.fixture(scope="module")
def fitted(pairs: list[Pair]) -> DefaultRecipe:
    return small("default").fit(pairs)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_follow_scikit_learn_and_answer_in_seconds(name: str, pairs: list[Pair]) -> None:
    train, test = ([pairs[row] for row in rows] for rows in next(iter(splits(pairs, "P2"))))
    recipe = small(name)
    copy, before = clone(recipe), str(recipe.get_params())
    # By their texts: a parameter may be an estimator, and estimators are equal only to themselves.
    assert type(copy) is type(recipe) and copy is not recipe and str(copy.get_params()) == before
    with pytest.raises(ValueError, match="Invalid parameter"):
        recipe.set_params(no_such_parameter=1)
    if recipe.__sklearn_tags__().requires_fit:
        with pytest.raises(NotFittedError):
            recipe.predict(test)
    else:
        assert np.array_equal(recipe.predict(test), clone(recipe).fit(train).predict(test))
    assert recipe.fit(train[::2]) is recipe  # what was learnt here must leave no trace
    seconds = recipe.fit(train).predict(test)
    assert str(recipe.get_params()) == before
    assert np.array_equal(copy.fit(train).predict(test), seconds)
    assert seconds.shape == (len(test),) and (seconds > 0).all()
    # Every recipe is within a factor; those that use telemetry stay near the 2 % noise and the few workloads allow.
    limit = {"default": 15}.get(name, 200)
    assert score(target_seconds(test), seconds).mape < limit
    # The measured answer is never an input.
    assert np.array_equal(recipe.predict([replace(pair, target_s=None) for pair in test]), seconds)


@pytest.mark.soak
def test_the_stack_is_the_same_from_processes(pairs: list[Pair]) -> None:
    in_threads = small("paper").fit(pairs).predict(pairs)
    with parallel_config("loky"):
        assert np.array_equal(small("paper").fit(pairs).predict(pairs), in_threads)


def test_routes(fitted: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    whole = make_profile("T4")
    no_power = replace(whole, metrics={name: whole.metrics[name] for name in ("gpu_utilization", "memory_utilization")})
    bare = replace(whole, metrics={"power": whole.metrics["power"]})
    asked = [
        Pair(whole, catalog["T4"], catalog["A10G"]),
        Pair(whole, catalog["T4"], catalog["H100 SXM5"]),
        Pair(replace(whole, gpu="L4"), catalog["L4"], catalog["T4"]),
        Pair(no_power, catalog["T4"], catalog["A10G"]),
        Pair(no_power, catalog["T4"], catalog["H100 SXM5"]),
        Pair(bare, catalog["T4"], catalog["A10G"]),
    ]
    assert fitted.answer(asked).routes.tolist() == [
        "ensemble",
        "residual",
        "residual",
        "incomplete",
        "specifications",
        "speeds",
    ]
    log_ratios = fitted.answer(asked).log_ratio
    # One batch answers as each question alone does, regardless of the routes next to it.
    assert np.allclose(log_ratios, [fitted.answer([pair]).log_ratio[0] for pair in asked], rtol=0, atol=1e-12)
    assert fitted.predict(asked[:1])[0] == pytest.approx(np.exp(log_ratios[0]) * whole.epoch_s)


def test_any_gpu_of_the_catalogue_is_source_and_target(
    fitted: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    for source in catalog.values():
        profile = make_profile(source.name)
        ratios = np.exp(fitted.answer([Pair(profile, source, target) for target in catalog.values()]).log_ratio)
        assert np.isfinite(ratios).all() and (ratios > 0).all()


def test_ratio_needs_no_latency_and_ignores_it(
    fitted: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    pairs = [Pair(make_profile(epoch_s=seconds), catalog["T4"], catalog["A10G"]) for seconds in (None, 0.05, 5000.0)]
    ratios = fitted.answer(pairs).log_ratio
    assert np.allclose(ratios, ratios[0], rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="use the ratio"):
        fitted.predict(pairs)


@pytest.mark.parametrize("metrics", [(), ("gpu_utilization",)])
def test_without_telemetry_the_speeds_alone_are_learnt(pairs: list[Pair], metrics: tuple[str, ...]) -> None:
    few = [
        replace(pair, source=replace(pair.source, metrics={name: pair.source.metrics[name] for name in metrics}))
        for pair in pairs
    ]
    recipe = DefaultRecipe().fit(few)
    assert recipe.correction_ is None and set(recipe.forgetting_jobs().answer(pairs).routes) == {"speeds"}
    again = DefaultRecipe().restore(recipe.state(), recipe.arrays())
    assert np.allclose(again.predict(pairs), recipe.forgetting_jobs().predict(pairs))


def test_what_is_restored_answers_alike(fitted: DefaultRecipe, pairs: list[Pair]) -> None:
    again = DefaultRecipe(**fitted.get_params()).restore(fitted.state(), fitted.arrays())
    assert np.array_equal(again.predict(pairs), fitted.predict(pairs))


def correction_of(recipe: DefaultRecipe) -> TelemetryCorrection:
    assert recipe.correction_ is not None
    return recipe.correction_


def test_no_training_target_stands_in_the_trees(fitted: DefaultRecipe, pairs: list[Pair]) -> None:
    """Every leaf is a mean of at least two rows; all measured ratios differ, so none can be read off."""
    base, forest = fitted.speeds_.forgetting_jobs().answer(pairs).log_ratio, correction_of(fitted).forest_
    targets = (np.log(actual_ratio(pairs)) - base).astype(np.float32)
    leaves = forest.value[forest.feature == -1]
    assert not np.isin(leaves, targets).any()


def test_no_training_profile_stands_among_the_inducing_points(fitted: DefaultRecipe, pairs: list[Pair]) -> None:
    correction = correction_of(fitted)
    rows = (correction.features_.matrix(pairs) - correction.mean_) / correction.scale_
    arrays = part(fitted.arrays(), "processes")
    points = np.concatenate([array for name, array in arrays.items() if name.endswith(".points")])
    assert len(points) > 50 and cdist(points, rows).min() > 1e-6


def test_profiles_that_are_all_alike_are_refused(pairs: list[Pair]) -> None:
    profile = pairs[0].source
    alike = [replace(pair, source=profile, source_gpu=pairs[0].source_gpu) for pair in pairs]
    with pytest.raises(InputError, match="nothing can be learnt from these"):
        small("default").fit(alike)


def test_repeated_runs_are_one_workload(pairs: list[Pair], fitted: DefaultRecipe) -> None:
    assert correction_of(small("default").fit([*pairs, *pairs])).pairs_seen_ == correction_of(fitted).pairs_seen_


def test_two_workloads_bound_no_ratio(
    made_up_profiles: list[Profile], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """The range of two measured ratios is no range of ratios: other jobs between these GPUs are answered beyond it."""
    some = [one for one in made_up_profiles if one.gpu != "A10G" or one.workload in ("0.0", "0.1")]
    recipe = small("default").fit(make_pairs(some, catalog))
    assert correction_of(recipe).pairs_seen_["T4", "A10G"].workloads == 2
    answers = recipe.answer([Pair(make_profile("T4", busy), catalog["T4"], catalog["A10G"]) for busy in (0.05, 1.0)])
    assert set(answers.routes.tolist()) == {"speeds"}
    low, high = correction_of(recipe).pairs_seen_["T4", "A10G"][1:]
    assert not ((low <= answers.log_ratio) & (answers.log_ratio <= high)).all()


def test_a_correction_learnt_in_one_arithmetic_says_nothing_of_another(
    made_up_profiles: list[Profile], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    single = [replace(profile, precision="tf32") for profile in made_up_profiles]
    recipe = small("default").fit(make_pairs(single, catalog))
    jobs = [make_profile("T4", precision=precision) for precision in ("tf32", "mixed", None)]
    asked = [Pair(job, catalog["T4"], catalog["V100 SXM2 16GB"]) for job in jobs]
    answers, speeds = recipe.answer(asked), recipe.speeds_.forgetting_jobs().answer(asked)
    assert answers.routes.tolist() == ["ensemble", "speeds", "speeds"]
    shift = answers.log_ratio - speeds.log_ratio
    assert shift[0] != 0 and shift[1] == 0 and shift[2] == pytest.approx(shift[0] / 2, rel=0.05)


def test_measured_gpus_without_telemetry_are_answered_by_their_speeds(
    pairs: list[Pair], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """Other jobs' rates on an A100 are better evidence of it than trees that saw a T4, an A10G and a V100."""
    bare = make_profile("T4", metrics={}, feature_set="none", workload="w", group="g", epoch_s=10.0)
    rates = make_pairs([bare, replace(bare, gpu="A100 SXM4 40GB", epoch_s=2.0)], catalog)
    recipe = small("default").fit([*pairs, *rates])
    asked = [Pair(make_profile("T4"), catalog["T4"], catalog[gpu]) for gpu in ("A100 SXM4 40GB", "A100 PCIe 40GB", "A10G")]
    assert recipe.answer(asked).routes.tolist() == ["speeds", "residual", "ensemble"]
