"""Ranking instances: order, limits, whole-instance prices, memory, and what a whole job is paid for."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.predict import GIB, MemoryNeed, memory_need
from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import JobLimits, LeftOut, Placement, WholeJob, Work, chance_within, rank_instances, whole_job
from epochcast.regressor import Prediction, Profile, load_catalog
from epochcast.regressor.prediction import Estimate

CATALOG = load_catalog()
STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")


def _instance(name: str, gpu: str, usd_per_hour: float | None, count: int = 1, **more: object) -> Instance:
    return Instance("aws", name, gpu, count, "us-east-1", usd_per_hour, "a page", date(2026, 2, 9), **more)  # type: ignore[arg-type]


def _prediction(gpu: str, ratio: float, epoch_s: float | None = 10.0, route: str = "speeds") -> Prediction:
    low, high = (1.0, 1.0) if route == "measured" else (0.9, 1.1)
    seconds = None if epoch_s is None else epoch_s * ratio
    ends = (None, None) if seconds is None else (seconds * low, seconds * high)
    return Prediction(gpu, ratio, seconds, *ends, "test", ratio * low, ratio * high, route, 1.0, ())


def _profile(metrics: dict[str, dict[str, float]] | None = None, **more: object) -> Profile:
    known = {"gpu": "T4", "epoch_s": 10.0, "unit": "epoch", "epochs": 5, "metrics": metrics or {}, "feature_set": "none"}
    return Profile(**known, first_epoch_excluded=True, **more)  # type: ignore[arg-type]


def _names(ranking: tuple[Sequence[Placement], Sequence[LeftOut]]) -> list[str]:
    return [row.instance.name for row in ranking[0]]


INSTANCES = [_instance("slow", "T4", 0.5), _instance("fast", "A10G", 1.2), _instance("eight", "A100 SXM4 40GB", 24.0, 8)]
PREDICTIONS = [_prediction("T4", 1.0, route="measured"), _prediction("A10G", 0.5), _prediction("A100 SXM4 40GB", 0.2)]


def _hour(prediction: Prediction) -> WholeJob:
    return whole_job(_profile(), prediction, Work(360))


def test_cost_and_time_order_and_the_whole_instance_is_paid() -> None:
    by_cost = rank_instances(PREDICTIONS, INSTANCES, CATALOG, job_of=_hour)
    assert _names(by_cost) == ["slow", "fast", "eight"]
    assert [row.usd.value for row in by_cost[0] if row.usd] == pytest.approx([0.5, 0.6, 4.8])
    assert _names(rank_instances(PREDICTIONS, INSTANCES, CATALOG, objective="time")) == ["eight", "fast", "slow"]


def test_several_gpus_take_whole_instances() -> None:
    four = _instance("four", "A10G", 4.0, 4)
    ranking = rank_instances(PREDICTIONS, [*INSTANCES, four], CATALOG, job_of=_hour, gpus=6, machines=6)
    assert {row.instance.name: (row.instances, row.usd_per_hour) for row in ranking[0]} == {
        "slow": (6, 3.0),
        "fast": (6, pytest.approx(7.2)),
        "four": (2, 8.0),
        "eight": (1, 24.0),
    }
    assert [row.usd.value for row in ranking[0] if row.usd] == pytest.approx([3.0, 3.6, 4.0, 4.8])
    assert ranking[0][2].instances == 2
    few = rank_instances(PREDICTIONS, INSTANCES, CATALOG, job_of=_hour, gpus=6, machines=6, limits=JobLimits(budget_usd=3.5))
    assert _names(few) == ["slow"], "the budget is that of all instances"


def _halved(prediction: Prediction, gpus: int) -> Prediction:
    """As if every doubling of the GPUs made the job 1.8 times as fast."""
    doublings = math.log2(gpus / prediction.gpus)
    return prediction.changed(-doublings * math.log(1.8), 0.2 * abs(doublings) ** 0.5, gpus=gpus, why="scaled")


def test_a_job_of_several_gpus_takes_all_of_an_instance_and_no_more_machines_than_it_has() -> None:
    four = [replace(one, gpus=4) for one in PREDICTIONS]
    instances = [*INSTANCES, _instance("four", "A10G", 4.0, 4)]
    one_machine = rank_instances(four, instances, CATALOG, job_of=_hour, on_gpus=_halved, gpus=4)
    rows = {row.instance.name: row for row in one_machine[0]}
    assert {name: (row.instances, row.gpus) for name, row in rows.items()} == {
        "slow": (1, 1),
        "fast": (1, 1),
        "four": (1, 4),
        "eight": (1, 8),
    }
    assert [rows[name].prediction.ratio for name in ("slow", "fast", "four", "eight")] == pytest.approx(
        [1.8**2, 0.5 * 1.8**2, 0.5, 0.2 / 1.8]
    )
    assert (
        rows["four"].prediction.ratio_low == pytest.approx(0.45)
        and rows["eight"].prediction.ratio_high > 1.1 * 0.2 / 1.8 * 1.05
    )
    two = [replace(one, gpus=2) for one in PREDICTIONS]  # two machines of two
    rows = {
        row.instance.name: row
        for row in rank_instances(two, instances, CATALOG, job_of=_hour, on_gpus=_halved, gpus=4, machines=2)[0]
    }
    assert {name: (row.instances, row.gpus) for name, row in rows.items()} == {
        "slow": (2, 2),
        "fast": (2, 2),
        "four": (1, 4),
        "eight": (1, 8),
    }
    assert rows["four"].prediction.ratio == pytest.approx(0.5 / 1.8 * 2), "half as many machines, twice the GPUs in it"
    assert "1 machines instead of 2" in rows["four"].prediction.why


def test_deadline_and_budget_are_kept_and_their_chances_told() -> None:
    ranking = rank_instances(PREDICTIONS, INSTANCES, CATALOG, job_of=_hour, limits=JobLimits(deadline_s=2000.0, budget_usd=1.0))
    assert _names(ranking) == ["fast"]
    assert {one.instance.name: one.reason for one in ranking[1]} == {"slow": "deadline", "eight": "budget"}
    row = ranking[0][0]
    assert row.deadline_chance is not None and 0.95 < row.deadline_chance < 0.99
    assert row.budget_chance == pytest.approx(1.0)
    nothing = rank_instances(PREDICTIONS, INSTANCES, CATALOG, job_of=_hour, limits=JobLimits(budget_usd=0.01))
    assert not nothing[0]


def test_chances_are_those_of_the_interval() -> None:
    estimate = Estimate(10.0, 8.0, 15.0)
    assert [chance_within(estimate, limit) for limit in (8.0, 10.0, 15.0)] == pytest.approx([0.05, 0.5, 0.95])
    assert [chance_within(Estimate(10.0, 10.0, 10.0), limit) for limit in (9.9, 10.0)] == [0.0, 1.0]
    assert [chance_within(estimate, limit) for limit in (5e-324, math.inf)] == [0.0, 1.0]


def test_clouds_regions_and_the_market() -> None:
    places = [
        _instance("here", "T4", 1.0, spot_usd_per_hour=0.3),
        replace(_instance("there", "T4", 0.9), region="eu-west-1"),
        replace(_instance("anywhere", "T4", 2.0), cloud="lambda", region="any"),
    ]
    assert _names(rank_instances(PREDICTIONS, places, CATALOG, limits=JobLimits(regions=["eu-west-1"]))) == [
        "there",
        "anywhere",
    ]
    assert _names(rank_instances(PREDICTIONS, places, CATALOG, limits=JobLimits(clouds=["aws"]))) == ["there", "here"]
    spot = rank_instances(PREDICTIONS, places, CATALOG, limits=JobLimits(market="spot"))
    assert [(row.instance.name, row.usd_per_hour, row.market) for row in spot[0]] == [("here", 0.3, "spot")]
    assert {one.reason for one in spot[1]} == {"price"}
    for limits, known in (
        (JobLimits(regions=["eu-west-9"]), "eu-west-1, us-east-1"),
        (JobLimits(clouds=["awz"]), "aws, lambda"),
    ):
        with pytest.raises(InputError, match=f"it has {known}"):
            rank_instances(PREDICTIONS, places, CATALOG, limits=limits)


def test_a_whole_job_pays_for_stalls_and_the_start() -> None:
    profile = _profile(first_epoch_s=30.0, stalls=1, stall_s=12.0)
    half = whole_job(profile, PREDICTIONS[1], Work(11, startup_s=300.0))
    assert half.epochs_s.value == pytest.approx(15 + 10 * 5)
    assert half.stall_s == pytest.approx(10 * 12 / 6)
    assert half.seconds.value == pytest.approx(65 + 20 + half.checkpoint_s + 300)
    assert half.seconds.high - half.seconds.value == pytest.approx(half.epochs_s.high - half.epochs_s.value)


def test_without_epochs_ratios_rank_and_limits_are_refused() -> None:
    predictions = [_prediction("T4", 1.0, None), _prediction("A10G", 0.5, None)]
    ranking = rank_instances(predictions, INSTANCES, CATALOG)
    assert _names(ranking) == ["slow", "fast"]
    assert ranking[0][0].usd is None
    assert all(row.pareto for row in ranking[0])
    with pytest.raises(InputError, match="need seconds"):
        rank_instances(predictions, INSTANCES, CATALOG, limits=JobLimits(deadline_s=10.0))


@pytest.mark.parametrize(
    "asked",
    [
        {"deadline_s": 0.0},
        {"budget_usd": math.nan},
        {"startup_s": math.nan, "epochs": 9},
    ],
)
def test_what_no_job_can_keep_is_refused(asked: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(asked))} is .*; give "):
        JobQuestion.of(asked)


def _memory(used: float, free: float) -> dict[str, dict[str, float]]:
    return {name: dict.fromkeys(STATISTICS, value) for name, value in (("memory_used", used), ("memory_free", free))}


@pytest.mark.parametrize(("most_used", "reserved"), [(13.2, False), (13.8, True)])
def test_nine_tenths_of_the_memory_that_there_is_may_be_reserved(most_used: float, reserved: bool) -> None:
    """Of 15 GiB; the job starts with 1 and ends with the most."""
    metrics = _memory(1 * GIB, 14 * GIB)
    metrics["memory_used"]["max"], metrics["memory_free"]["min"] = most_used * GIB, (15 - most_used) * GIB
    need = memory_need(_profile(metrics), CATALOG["T4"])
    assert need and (need.bytes, need.reserved) == (most_used * GIB, reserved)


def test_the_gpu_that_the_job_was_seen_on_has_its_memory() -> None:
    assert _names(rank_instances(PREDICTIONS[:1], INSTANCES, CATALOG, need=MemoryNeed(15.5 * GIB))) == ["slow"]
    assert not rank_instances([_prediction("T4", 1.0)], INSTANCES, CATALOG, need=MemoryNeed(15.5 * GIB))[0]
    more_than_there_is = rank_instances(PREDICTIONS, INSTANCES, CATALOG, need=MemoryNeed(60 * GIB))
    assert not more_than_there_is[0] and {one.reason for one in more_than_there_is[1]} == {"memory"}
