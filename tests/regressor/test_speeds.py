from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor import speeds as model
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.precision import Precision
from epochcast.regressor.profile import STATISTICS
from epochcast.regressor.protocols import network_family, splits
from epochcast.regressor.recipes import DefaultRecipe, SpeedsRecipe
from epochcast.regressor.recipes.speeds import rates_of
from epochcast.regressor.speeds import MeasuredRate, Speeds
from lab.evaluate.latency import evaluate, evaluate_split

GPUS = ("T4", "V100 SXM2 16GB", "A100 SXM4 40GB", "H100 SXM5", "RTX A6000")


def made_up_rates(catalog: Catalog, jobs: int = 6, seed: int = 0) -> list[MeasuredRate]:
    """Two works of each job on all GPUs but for some holes, in both precisions, at random speeds."""
    rng = np.random.default_rng(seed)
    return [
        MeasuredRate(
            f"{job}.{work}.{precision}", f"job{job}", catalog[gpu], precision, rng.normal(), rng.normal(0, 0.3), "here"
        )
        for job in range(jobs)
        for work in range(2)
        for precision in ("tf32", "mixed")
        for gpu in GPUS
        if rng.random() < 0.8
    ]


def exactly(rates: list[MeasuredRate], speeds: Speeds, source: MeasuredRate, target: MeasuredRate) -> tuple[float, float]:
    """Mean and variance of the same question by a Gaussian process over all rates (Rasmussen and Williams, eq. 2.25)."""

    def rows(some: list[MeasuredRate]) -> tuple[np.ndarray, np.ndarray]:
        gpus, precisions = [rate.gpu for rate in some], [rate.precision for rate in some]
        batch = np.array([rate.log_batch for rate in some])
        return speeds._shared(gpus, precisions, batch), speeds._own(gpus, precisions, batch)

    def covariance(a: list[MeasuredRate], b: list[MeasuredRate]) -> np.ndarray:
        (shared_a, own_a), (shared_b, own_b) = rows(a), rows(b)
        same_job = np.array([[one.job == other.job for other in b] for one in a])
        same_work = np.array([[one.work == other.work for other in b] for one in a])
        shared = shared_a * speeds._shared_scales() ** 2 @ shared_b.T
        return shared + same_job * (own_a * speeds._own_scales() ** 2 @ own_b.T) + 1e3 * same_work

    noise = np.diag([speeds.noise(rate.origin) ** 2 for rate in rates])
    K = covariance(rates, rates) + noise
    asked = [source, target]
    cross = covariance(asked, rates)
    means = {work: np.mean([rate.log_speed for rate in rates if rate.work == work]) for work in {rate.work for rate in rates}}
    expected = [rows(some)[0] @ speeds._shared_means() for some in (rates, asked)]
    residual = np.array([rate.log_speed - means[rate.work] for rate in rates]) - expected[0]
    mean = expected[1] + cross @ np.linalg.solve(K, residual)
    left = covariance(asked, asked) - cross @ np.linalg.solve(K, cross.T)
    return mean[1] - mean[0], left[0, 0] + left[1, 1] - 2 * left[0, 1]


@pytest.mark.parametrize("job", ["job1", "never seen"])
@pytest.mark.parametrize("precision", ["tf32", "mixed", "fp8"])
def test_answers_are_those_of_one_gaussian_process(catalog: Catalog, job: str, precision: Precision) -> None:
    rates = made_up_rates(catalog)
    speeds = Speeds().fit(rates)
    source, target = catalog["T4"], catalog["H100 SXM5"]
    found = speeds.compare([source], [target], [precision], [job])
    ends = (MeasuredRate("new", job, gpu, precision, 0.0) for gpu in (source, target))
    mean, variance = exactly(rates, speeds, *ends)
    assert found.mean[0] == pytest.approx(mean, abs=1e-5) and found.variance[0] == pytest.approx(variance, rel=1e-4)


def test_there_and_back_is_where_it_began(catalog: Catalog) -> None:
    speeds = Speeds().fit(made_up_rates(catalog))
    gpus = [catalog[name] for name in (*GPUS, "B200 SXM")]
    for a in gpus:
        for b in gpus:
            there = speeds.compare([a, b], [b, a], ["mixed"] * 2, [None, None])
            assert there.mean[0] == pytest.approx(-there.mean[1]) and there.variance[0] == pytest.approx(there.variance[1])


def test_leaving_a_job_out_equals_a_fit_without_it(catalog: Catalog) -> None:
    rates = made_up_rates(catalog)
    others = [rate for rate in rates if rate.job != "job2"]
    # Below 30 rates an origin's scatter stays as it was assumed, so that both have the same.
    rates, others = ([rate._replace(origin=rate.job) for rate in some] for some in (rates, others))
    question = ([catalog["T4"]], [catalog["A100 SXM4 40GB"]], ["tf32"], ["job2"])
    left_out, never_seen = Speeds().fit(rates).without("job2"), Speeds().fit(others)
    never_seen._centre = left_out._centre
    never_seen._fit_jobs({job: [rate for rate in others if rate.job == job] for job in {rate.job for rate in others}})
    assert left_out.compare(*question).mean == pytest.approx(never_seen.compare(*question).mean, abs=1e-6)
    assert left_out.compare(*question).variance == pytest.approx(never_seen.compare(*question).variance, rel=1e-4)
    assert not left_out.knows_job("job2")


def test_a_gpu_faster_than_its_data_sheet_is_remembered(catalog: Catalog) -> None:
    """Every job runs 30 % faster on the A6000 than bandwidth and rates say; a new job is expected to, too."""
    rates = [
        MeasuredRate(f"w{job}", f"j{job}", catalog[gpu], "tf32", 0.5 * np.log(catalog[gpu].memory_bandwidth) + extra)
        for job in range(40)
        for gpu, extra in (("T4", 0.0), ("V100 SXM2 16GB", 0.0), ("A100 SXM4 40GB", 0.0), ("RTX A6000", 0.3))
    ]
    with_it = Speeds().fit(rates)
    plain = Speeds().fit([rate._replace(log_speed=rate.log_speed - 0.3 * (rate.gpu.name == "RTX A6000")) for rate in rates])
    question = ([catalog["T4"]], [catalog["RTX A6000"]], ["tf32"], [None])
    assert with_it.compare(*question).mean - plain.compare(*question).mean == pytest.approx(0.3, abs=0.05)


def test_an_unmeasured_gpu_is_less_sure_than_a_measured_one(catalog: Catalog) -> None:
    speeds = Speeds().fit(made_up_rates(catalog))
    sources = [catalog["T4"]] * 3
    targets = [catalog["A100 SXM4 40GB"], catalog["A100 PCIe 40GB"], catalog["RTX 4090"]]
    known, sister, other = speeds.compare(sources, targets, ["tf32"] * 3, [None] * 3).variance
    assert known < sister < other  # the last one's architecture is unknown, too
    assert speeds.knows(targets[0]) and not speeds.knows(targets[1])


def test_scatter_is_learnt_by_origin(catalog: Catalog) -> None:
    rng = np.random.default_rng(0)
    rates = [
        MeasuredRate(f"{origin}{work}", origin, catalog[gpu], "tf32", rng.normal(0, scatter), 0.0, origin)
        for origin, scatter, works in (("quiet", 0.05, 40), ("loud", 0.2, 40), ("enough", 0.2, 6), ("few", 0.2, 6))
        for work in range(works)
        for gpu in GPUS
    ]
    speeds = Speeds().fit(rates[:-1])  # 30 rates are enough, 29 are few
    assert speeds.noise("quiet") == pytest.approx(0.05, rel=0.15) and speeds.noise("loud") == pytest.approx(0.2, rel=0.15)
    assert speeds.noise("few") == speeds.noise(None) == model._NOISE != speeds.noise("enough")


def test_a_user_without_l2_in_the_catalogue_gets_an_answer(catalog: Catalog) -> None:
    speeds = Speeds().fit(made_up_rates(catalog))
    mine = replace(catalog["L4"], name="Mine", l2_cache=None)
    assert np.isfinite(speeds.compare([catalog["T4"]], [mine], ["mixed"], [None]).mean[0])


def activity(busy: float) -> dict[str, dict[str, float]]:
    return {"gpu_utilization": dict.fromkeys(STATISTICS, busy) | {"std": 0.0}}


@pytest.fixture(scope="module")
def fitted(catalog: Catalog, make_profile: Callable[..., Profile]) -> SpeedsRecipe:
    """20 jobs, twice as fast on a V100 as on a T4, and in mixed precision four times."""
    profiles = [
        make_profile(
            gpu,
            metrics={},
            feature_set="none",
            epoch_s=seconds,
            workload=f"{job}{precision}",
            group=f"j{job}",
            precision=precision,
        )
        for job in range(20)
        for precision, v100 in (("tf32", 5.0), ("mixed", 2.5))
        for gpu, seconds in (("T4", 10.0), ("V100 SXM2 16GB", v100))
    ]
    return SpeedsRecipe().fit(make_pairs(profiles, catalog))


def test_precision_known_and_unknown(catalog: Catalog, make_profile: Callable[..., Profile], fitted: SpeedsRecipe) -> None:
    bare = make_profile("T4", metrics={}, feature_set="none")
    jobs = [replace(bare, precision="tf32"), replace(bare, precision="mixed"), bare]
    answers = fitted.answer([Pair(job, catalog["T4"], catalog["V100 SXM2 16GB"]) for job in jobs])
    single, mixed, unknown = answers.log_ratio
    assert np.exp(single) == pytest.approx(0.5, abs=0.06) and np.exp(mixed) == pytest.approx(0.25, abs=0.03)
    assert unknown == pytest.approx((single + mixed) / 2)
    # Two points 0.69 apart have a standard deviation of 0.35.
    assert answers.scale[2] ** 2 == pytest.approx(np.mean(answers.scale[:2] ** 2) + ((single - mixed) / 2) ** 2, rel=1e-6)


def test_the_idle_share_stays(catalog: Catalog, make_profile: Callable[..., Profile], fitted: SpeedsRecipe) -> None:
    pairs = [
        Pair(make_profile("T4", metrics=activity(busy), precision="tf32"), catalog["T4"], catalog["V100 SXM2 16GB"])
        for busy in (1.0, 0.4)
    ]
    whole, idle = np.exp(fitted.answer(pairs).log_ratio)
    assert idle == pytest.approx(0.6 + 0.4 * whole)
    assert fitted.answer(pairs).scale[1] < fitted.answer(pairs).scale[0]


def test_routes(catalog: Catalog, make_profile: Callable[..., Profile], fitted: SpeedsRecipe) -> None:
    profile = make_profile("T4", precision="mixed")
    known = replace(profile, group="j3")
    asked = [(profile, "V100 SXM2 16GB"), (known, "V100 SXM2 16GB"), (profile, "H100 SXM5"), (known, "H100 SXM5")]
    answers = fitted.answer([Pair(job, catalog["T4"], catalog[gpu]) for job, gpu in asked])
    assert answers.routes.tolist() == ["speeds", "job", "specifications", "job"] and answers.support.tolist() == [1, 1, 0, 0]


def test_rates_are_of_the_busy_time_where_all_of_a_job_says_it(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    def profile(gpu: str, group: str, metrics: dict[str, dict[str, float]]) -> Profile:
        return make_profile(gpu, metrics=metrics, epoch_s=10.0, workload=group, group=group, batch=32, precision="tf32")

    profiles = [profile(gpu, "all", activity(0.5)) for gpu in ("T4", "A10G")]
    profiles += [profile("T4", "some", activity(0.5)), profile("A10G", "some", {})]
    speeds = [np.exp(-rate.log_speed) for rate in rates_of(make_pairs(profiles, catalog))]
    assert speeds == pytest.approx([5.0, 5.0, 10.0, 10.0])


def test_equal_networks_of_all_origins_are_one_family() -> None:
    names = (
        "resnet50",
        "ResNet-50",
        "MxNet/Classification/RN50v1.5",
        "TensorFlow/Classification/ConvNets/resnet50v1.5",
        "resnet",
    )
    assert {network_family(name) for name in names} == {"resnet"}
    assert network_family("PyTorch/Classification/ConvNets/se-resnext101-32x4d") == "resnext"
    assert {network_family(name) for name in ("bert_base_squad", "TensorFlow/LanguageModeling/BERT/biobert", "bert")} == {
        "bert"
    }
    assert network_family("PyTorch/LanguageModeling/Transformer-XL") == network_family("transformerxllarge") == "transformerxl"
    assert network_family("Something New") == "somethingnew"


def test_families_leave_together(rates: list[Profile], catalog: Catalog) -> None:
    pairs = make_pairs(rates, catalog)
    for train, test in splits(pairs, "new-workload", families=True):
        held, tested = ({network_family(str(pairs[row].source.group)) for row in rows} for rows in (train, test))
        assert not held & tested
    alone, together = (len(list(splits(pairs, "new-workload", families=families))) for families in (False, True))
    assert together < alone == 44


def test_new_workloads_on_public_rates(rates: list[Profile], catalog: Catalog) -> None:
    result = evaluate(rates, catalog, protocol="new-workload", recipe="speeds")
    assert result.n == 7012 and result.coverage == 1.0
    assert result.mape <= 23 and result.median_ape <= 16 and result.mape_by_group <= 22.5 and abs(result.bias) <= 0.03
    assert result.wrong_order <= 3.2 and result.by["source"]["mlperf"]["mape"] <= 12
    assert 0.85 <= result.inside <= 0.94
    ridge = evaluate(rates, catalog, protocol="new-workload", recipe="data-sheet-ridge")
    assert result.mape < ridge.mape and result.median_ape < ridge.median_ape


def test_only_gpus_that_training_lacks_are_targets(rates: list[Profile], catalog: Catalog) -> None:
    some = [profile for profile in rates if profile.origin == "lambda"]
    train = [profile for profile in some if profile.gpu != "RTX A5500"]
    works = {profile.workload for profile in some if profile.gpu == "RTX A5500"}
    test = [profile for profile in some if profile.workload in works]
    result = evaluate_split(train, test, catalog, recipe=DefaultRecipe(trees=5))
    assert set(result.by["target_gpu"]) == {"RTX A5500"} and "RTX A5500" not in result.by["source_gpu"]
    assert result.settings["only_into"] == ["RTX A5500"] and result.mape <= 16 and 0.8 <= result.inside <= 1
