from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.job_types import JOB_TYPES
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe
from epochcast.regressor.scoring import score

RECIPES = {"default": DefaultRecipe, "paper": PaperRecipe}
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
    with pytest.raises(NotFittedError):
        recipe.predict(test)
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


def test_routes(fitted: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    whole = make_profile("T4")
    bare = replace(whole, metrics={"gpu_utilization": whole.metrics["gpu_utilization"]})
    asked = [
        Pair(whole, catalog["T4"], catalog["A10G"]),
        Pair(whole, catalog["T4"], catalog["H100 SXM5"]),
        Pair(replace(whole, gpu="L4"), catalog["L4"], catalog["T4"]),
        Pair(bare, catalog["T4"], catalog["A10G"]),
        Pair(replace(bare, type="cnn"), catalog["T4"], catalog["H100 SXM5"]),
        Pair(replace(bare, gpu="L4"), catalog["L4"], catalog["H100 SXM5"]),
    ]
    answers = fitted.answer(asked)
    assert answers.routes.tolist() == ["telemetry", *["specifications"] * 2, "speeds", *["specifications"] * 2]
    cells = ["telemetry", *["specifications, type unknown"] * 2, "speeds, type unknown", "specifications"]
    assert answers.cells.tolist() == [*cells, "both new, type unknown"]
    assert [fitted.uses_telemetry(pair) for pair in asked] == [True] * 3 + [False] * 3
    # One batch answers as each question alone does, regardless of the routes next to it.
    assert np.allclose(answers.log_ratio, [fitted.answer([pair]).log_ratio[0] for pair in asked], rtol=0, atol=1e-12)
    assert fitted.predict(asked[:1])[0] == pytest.approx(np.exp(answers.log_ratio[0]) * whole.epoch_s)


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


@pytest.fixture(scope="module")
def by_rates(catalog: Catalog, make_profile: Callable[..., Profile]) -> DefaultRecipe:
    """20 jobs without telemetry, twice as fast on a V100 as on a T4, and in mixed precision or as an LLM four times."""
    profiles = [
        make_profile(
            gpu,
            metrics={},
            feature_set="none",
            epoch_s=seconds,
            workload=f"{job}{precision}",
            group=f"j{job}",
            precision=precision,
            type=("cnn", "llm")[job % 2],
        )
        for job in range(20)
        for precision in ("tf32", "mixed")
        for gpu, seconds in (("T4", 10.0), ("V100 SXM2 16GB", 5.0 if precision == "tf32" and job % 2 == 0 else 2.5))
    ]
    return DefaultRecipe(iterations=50).fit(make_pairs(profiles, catalog))


def test_what_is_not_known_is_the_mean_over_what_is_likely(
    by_rates: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    bare = make_profile("T4", metrics={}, feature_set="none")
    jobs = [replace(bare, precision=precision, type=of) for precision in ("tf32", "mixed") for of in ("cnn", "llm")]
    asked = [*jobs, replace(bare, precision="tf32"), bare]
    answers = by_rates.answer([Pair(job, catalog["T4"], catalog["V100 SXM2 16GB"]) for job in asked])
    assert by_rates.telemetry_ is None and set(answers.routes) == {"speeds"}
    known, width = answers.log_ratio, answers.scale
    assert np.exp(known[:4]) == pytest.approx([0.5, 0.25, 0.25, 0.25], rel=0.35) and known[0] > known[1]
    assert known[4] == pytest.approx(known[:2].mean()) and known[5] == pytest.approx(known[:4].mean())
    assert width[4] ** 2 == pytest.approx(np.mean(width[:2] ** 2) + known[:2].var()) and width[4] > width[:2].max()


def test_short_steps_of_a_new_family_may_be_launches(
    by_rates: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    bare = make_profile("T4", metrics={}, feature_set="none", type="llm", precision="mixed", unit="step")
    jobs = [replace(bare, epoch_s=seconds) for seconds in (1.0, 0.01)]
    long, short = by_rates.answer([Pair(job, catalog["T4"], catalog["V100 SXM2 16GB"]) for job in jobs]).scale
    assert short > np.log(3) / np.sqrt(3) > long


def test_there_and_back_is_where_it_began(
    by_rates: DefaultRecipe, catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """Of one job without telemetry A to B and B to A never contradict."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        here, there = (str(name) for name in rng.choice(list(catalog), 2, replace=False))
        stated = {"type": rng.choice([*JOB_TYPES, None]), "precision": rng.choice(["tf32", "mixed", "fp8"])}
        job = make_profile(here, metrics={}, feature_set="none", batch=32.0, gpus=int(rng.choice([1, 8])), **stated)
        out = by_rates.answer([Pair(job, catalog[here], catalog[there])])
        back = by_rates.answer([Pair(replace(job, gpu=there), catalog[there], catalog[here])])
        assert out.log_ratio[0] == pytest.approx(-back.log_ratio[0]) and out.scale[0] == pytest.approx(back.scale[0])


def test_what_is_restored_answers_alike(fitted: DefaultRecipe, by_rates: DefaultRecipe, pairs: list[Pair]) -> None:
    for recipe in (fitted, by_rates):
        again = DefaultRecipe(**recipe.get_params()).restore(recipe.state())
        assert np.array_equal(again.predict(pairs), recipe.predict(pairs))
        assert np.allclose(again.answer(pairs).scale, recipe.answer(pairs).scale, rtol=1e-4)


def test_telemetry_of_one_arithmetic_and_type_says_nothing_of_another(
    made_up_profiles: list[Profile], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    single = [replace(profile, precision="tf32", type="cnn") for profile in made_up_profiles]
    recipe = small("default").fit(make_pairs(single, catalog))
    jobs = [make_profile("T4", precision=precision) for precision in ("tf32", "mixed", None)]
    jobs.append(make_profile("T4", precision="tf32", type="llm"))
    answers = recipe.answer([Pair(job, catalog["T4"], catalog["V100 SXM2 16GB"]) for job in jobs])
    assert answers.routes.tolist() == ["telemetry", "speeds", "telemetry", "speeds"]
    single_ratio, mixed, either, _ = answers.log_ratio
    assert either == pytest.approx((single_ratio + mixed) / 2) and single_ratio != mixed


def test_measured_gpus_without_telemetry_are_answered_by_their_rates(
    pairs: list[Pair], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """Other jobs' rates on an A100 are better evidence of it than telemetry of a T4, an A10G and a V100."""
    bare = make_profile("T4", metrics={}, feature_set="none", workload="w", group="g", epoch_s=10.0)
    rates = make_pairs([bare, replace(bare, gpu="A100 SXM4 40GB", epoch_s=2.0)], catalog)
    recipe = small("default").fit([*pairs, *rates])
    asked = [Pair(make_profile("T4"), catalog["T4"], catalog[gpu]) for gpu in ("A100 SXM4 40GB", "A100 PCIe 40GB", "A10G")]
    assert recipe.answer(asked).routes.tolist() == ["speeds", "specifications", "telemetry"]
    assert [recipe.uses_telemetry(pair) for pair in asked] == [False, True, True]
