"""Ranking instances: order, constraints, whole-instance prices, and the properties that must hold for any input."""

import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.instances import Instance, load_instances
from epochcast.analyzer.recommendation import recommend
from epochcast.regressor import Prediction, load_catalog
from epochcast.regressor.estimate import Estimate
from epochcast.regressor.job import Job

HEADER = "cloud,instance,gpu,count,region,usd_per_hour,source,date\n"


def _instance(name: str, gpu: str, usd_per_hour: float, count: int = 1) -> Instance:
    return Instance("aws", name, gpu, count, "us-east-1", usd_per_hour, "a page", date(2026, 2, 9))


def _prediction(gpu: str, ratio: float, epoch_s: float | None = 10.0) -> Prediction:
    if epoch_s is None:
        return Prediction(gpu, ratio, None, None, None, "test", ratio * 0.9, ratio * 1.1, "prior", 1.0, ())
    return Prediction(
        gpu,
        ratio,
        epoch_s * ratio,
        epoch_s * ratio * 0.9,
        epoch_s * ratio * 1.1,
        "test",
        ratio * 0.9,
        ratio * 1.1,
        "prior",
        1.0,
        (),
    )


INSTANCES = [_instance("slow", "T4", 0.5), _instance("fast", "A10G", 1.2), _instance("eight", "A100 SXM4 40GB", 24.0, 8)]
PREDICTIONS = [_prediction("T4", 1.0), _prediction("A10G", 0.5), _prediction("A100 SXM4 40GB", 0.2)]


def test_cost_and_time_order_and_the_whole_instance_is_paid() -> None:
    by_cost = recommend(PREDICTIONS, INSTANCES, jobs=_jobs(360), objective="cost")
    assert [row.instance.name for row in by_cost] == ["slow", "fast", "eight"]
    assert [row.usd.value for row in by_cost if row.usd] == pytest.approx([0.5, 0.6, 4.8])
    assert [row.instance.name for row in recommend(PREDICTIONS, INSTANCES, objective="time")] == ["eight", "fast", "slow"]


def _jobs(epochs: int, stall_s: float = 0.0) -> dict[str, Job]:
    def job(seconds: float) -> Job:
        whole = Estimate(epochs * seconds, epochs * seconds * 0.9, epochs * seconds * 1.1)
        return Job(epochs, whole.plus(Estimate(stall_s, stall_s, stall_s)), None, stall_s)

    return {prediction.gpu: job(10.0 * prediction.ratio) for prediction in PREDICTIONS}


def test_a_whole_job_costs_its_stalls_too() -> None:
    alone, stalled = (recommend(PREDICTIONS, INSTANCES, jobs=_jobs(10, stall_s)) for stall_s in (0.0, 900.0))
    assert [row.seconds.value for row in stalled if row.seconds] == [1000.0, 950.0, 920.0]
    assert stalled[0].seconds == Estimate(1000.0, 990.0, 1010.0)
    assert [row.usd.value for row in stalled if row.usd] == sorted(row.usd.value for row in stalled if row.usd)
    assert [row.instance.name for row in alone] == ["slow", "fast", "eight"]


def test_deadline_and_budget_are_kept() -> None:
    rows = recommend(PREDICTIONS, INSTANCES, jobs=_jobs(360), deadline_s=2000.0, budget_usd=1.0)
    assert [row.instance.name for row in rows] == ["fast"]
    assert recommend(PREDICTIONS, INSTANCES, jobs=_jobs(360), budget_usd=0.01) == []


def test_without_epochs_ratios_rank_and_limits_are_refused() -> None:
    predictions = [_prediction("T4", 1.0, None), _prediction("A10G", 0.5, None)]
    rows = recommend(predictions, INSTANCES)
    assert [row.instance.name for row in rows] == ["slow", "fast"]
    assert rows[0].usd is None
    with pytest.raises(InputError, match="need seconds"):
        recommend(predictions, INSTANCES, deadline_s=10.0)


@pytest.mark.parametrize("limits", [{"deadline_s": 0.0}, {"budget_usd": -1.0}, {"budget_usd": math.nan}])
def test_limits_must_be_above_zero(limits: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be above 0"):
        recommend(PREDICTIONS, INSTANCES, **limits)  # type: ignore[arg-type]


@given(
    ratios=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
    prices=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
    deadline=st.floats(0.1, 1e4),
    factor=st.floats(0.1, 10),
)
def test_constraints_hold_and_prices_scale(ratios: list[float], prices: list[float], deadline: float, factor: float) -> None:
    gpus = ["T4", "A10G", "L4"]
    predictions = [_prediction(gpu, ratio) for gpu, ratio in zip(gpus, ratios, strict=True)]
    instances = [_instance(gpu, gpu, price) for gpu, price in zip(gpus, prices, strict=True)]
    rows = recommend(predictions, instances, deadline_s=deadline)
    assert all(row.seconds is not None and row.seconds.value <= deadline for row in rows)
    costs = [row.usd.value for row in rows if row.usd]
    assert costs == pytest.approx(sorted(costs)), "equal costs may differ in the last digit, and so stand either way"
    scaled = recommend(predictions, [_instance(gpu, gpu, price * factor) for gpu, price in zip(gpus, prices, strict=True)])
    plain = recommend(predictions, instances)
    assert sorted(row.usd.value for row in scaled if row.usd) == pytest.approx(
        sorted(row.usd.value * factor for row in plain if row.usd)
    )


def test_every_shipped_row_names_a_known_gpu_a_source_and_a_date() -> None:
    instances, skipped = load_instances(None, load_catalog())
    assert not skipped
    assert len(instances) >= 10
    assert all(instance.source and instance.date for instance in instances)


def test_the_users_file_replaces_ours_and_unknown_gpus_are_skipped_by_name(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "mine,box,T4,1,attic,0.05,my bill,2026-11-01\nmine,tpu,TPU v5e,1,attic,1,my bill,2026-11-01\n")
    instances, skipped = load_instances(path, load_catalog())
    assert [instance.name for instance in instances] == ["box"]
    assert len(skipped) == 1
    assert "TPU v5e" in skipped[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "lacks the columns"),
        (HEADER + "aws,x,T4,1,r,0,page,2026-01-01\n", "usd_per_hour of row 1"),
        (HEADER + "aws,x,T4,1,r,-3,page,2026-01-01\n", "'-3'"),
        (HEADER + "aws,x,T4,1,r,€2,page,2026-01-01\n", "'€2'"),
        (HEADER + "aws,x,T4,none,r,1,page,2026-01-01\n", "count of row 1"),
        (HEADER + "aws,x,T4,0.5,r,1,page,2026-01-01\n", "'0.5'; it must be a whole number of GPUs"),
        (HEADER + "aws,x,T4,1,r,1e308,page,2026-01-01\n", "'1e308'"),
        (HEADER + "aws,x,T4,1,r,1,page,2026-01-01,more\n", "not a readable CSV"),
        (HEADER + "aws,x,T4,1,r,1,page,\n", "no source or date"),
        (HEADER + "aws,x,T4,1,r,1, ,2026-01-01\n", "no source or date"),
        (HEADER + "aws,x,T4,1,r,1,page,last week\n", "YYYY-MM-DD"),
        (HEADER + "aws,x,TPU,1,r,1,page,2026-01-01\n", "no row with a GPU of the catalogue: row 1"),
        ("", "not a readable CSV"),
    ],
)
def test_bad_price_files_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_instances(path, load_catalog())
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_price_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such price file"):
        load_instances(tmp_path / "none.csv", load_catalog())
