"""Who trains together in a fleet's history, what moving a job would save, and who holds it up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.fleet.fleet_jobs import FleetJob, groups_of
from epochcast.analyzer.fleet.job_answers import jobs_of
from epochcast.analyzer.fleet.jobs_table import SCHEMA, row_of, write_jobs
from epochcast.analyzer.fleet.savings import GpuPrices, saving_of
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.grouping import grouped
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.telemetry.gpu_report import Owner
from epochcast.regressor import LatencyPredictor
from epochcast.regressor.profile import STATISTICS

from .made_findings import BEGAN, device, finding, fleet, span


@pytest.fixture
def spans(tmp_path: Path) -> Iterator[SpansByStart]:
    with SpansByStart(tmp_path / "spans.sqlite") as opened:
        yield opened
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def put(spans: SpansByStart, *findings: Any) -> None:
    for one in findings:
        for each in one.spans:
            spans.add(one.trace, each)


def told(spans: SpansByStart, advisor: Advisor, *findings: Any) -> list[FleetJob]:
    put(spans, *findings)
    return [job for job, _ in jobs_of(spans, advisor)]


def test_a_copy_of_a_trace_counts_once_whichever_comes_first(tmp_path: Path) -> None:
    of = device("n", 0)
    copies = [replace(finding(of, span(of)), trace=name) for name in ("b/0.parquet", "a/0.parquet")]
    kept = []
    for number, order in enumerate((copies, copies[::-1])):
        with SpansByStart(tmp_path / f"{number}.sqlite") as spans:
            put(spans, *order)
            assert (spans.added, len(spans)) == (2, 1)
            kept += [one.trace for one in spans]
    assert kept == ["a/0.parquet", "a/0.parquet"]


@pytest.mark.parametrize("most", [3, 17, 10_000])
def test_groups_are_those_of_all_spans_at_once(spans: SpansByStart, most: int) -> None:
    for number, one in enumerate(fleet(6, seed=3)):
        moved = [replace(each, report=each.report) for each in one.spans]
        put(spans, replace(one, spans=tuple(moved)))
        if number % 5 == 0:  # GPUs have a second job later, some with owners that name it
            of = one.device
            again = span(of, start=BEGAN + 700 + number // 3, period=20.0 + number // 10)
            owners = (Owner(1, "python", slurm_job="7"),) if number % 2 else ()
            put(spans, replace(one, spans=(replace(again, report=replace(again.report, owners=owners)),)))
    found = {group.id: {span.number for span in own} for group, own in groups_of(spans, most=most)}
    number_of = {(one.report.device.uuid, one.since): one.number for one in spans}
    at_once = {
        group.id: {number_of[report.device.uuid, report.job_since or 0.0] for report in reports}
        for group, reports in grouped(one.report for one in spans)
    }
    assert found == at_once
    assert {len(own) for own in found.values()} >= {1, 2, 4}


def test_a_gpu_that_begins_a_whole_epoch_after_the_others_of_its_job_is_waited_for(spans: SpansByStart) -> None:
    """Epochs of one job differ by 2 % at most, so by as much more than one epoch may a GPU come later."""
    first, between, late = (device("n", index) for index in range(3))
    put(spans, finding(first, span(first, period=30.0)))
    put(spans, finding(between, span(between, start=BEGAN + 30.2, period=7.0)))
    joins = span(late, start=BEGAN + 30.5, shift=-0.5, period=30.0)  # its epochs end with those of the first
    put(
        spans,
        finding(late, replace(joins, report=replace(joins.report, detection=replace(joins.report.detection, period_s=30.5)))),
    )
    assert sorted(len(own) for _, own in groups_of(spans, most=1)) == [1, 2]


def test_gpus_of_two_models_in_step_are_two_jobs_unless_owners_say_otherwise(spans: SpansByStart) -> None:
    for index, name in enumerate(("Tesla T4", "Tesla T4", "NVIDIA L4")):
        put(spans, finding(device("n", index, name), span(device("n", index, name))))
        owned = span(device("m", index, name), start=BEGAN + 5000)
        report = replace(owned.report, owners=(Owner(1, "python", slurm_job="7"),))
        put(spans, finding(owned.report.device, replace(owned, report=report)))
    assert sorted(len(own) for _, own in groups_of(spans)) == [1, 2, 3]


def test_a_job_is_told_with_its_traces_and_its_price(spans: SpansByStart, advisor: Advisor, tmp_path: Path) -> None:
    findings = list(fleet(2))
    jobs = told(spans, advisor, *findings)
    assert sorted(len(job.answer.gpus) for job in jobs) == [1, 1, 2, 2, 4, 4]
    four = next(job for job in jobs if len(job.answer.gpus) == 4 and job.answer.nodes == ("node-00001",))
    assert four.answer.grouped_by == "phase" and four.answer.verdict == "epochs" and four.straggler is None
    assert four.gpu_s == pytest.approx(2400) and four.seconds == pytest.approx(600)
    path = tmp_path / "jobs.parquet"
    with path.open("wb") as file:
        write_jobs(map(row_of, jobs), file)
    table = pq.read_table(path)
    path.unlink()
    assert table.schema.equals(SCHEMA) and all(field.metadata is not None for field in table.schema)
    row = next(row for row in table.to_pylist() if row["job"] == four.answer.id)
    assert row["traces"] == [f"node-00001/{index}.parquet" for index in range(4)]
    assert row["current_instance"] == "a2-highgpu-8g" and not row["current_assumed"]
    assert row["energy_j"] == pytest.approx(4e5) and row["gpu_hours"] == pytest.approx(2400 / 3600)
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("a2-highgpu-8g", "us-central1"))
    assert row["current_usd_per_hour"] == pytest.approx((whole.usd_per_hour or 0) / 2), "four of eight GPUs pay half"
    saved = 1 - row["best_ratio"] * row["best_usd_per_hour"] / row["current_usd_per_hour"]
    assert row["saving_ratio"] == pytest.approx(saved)
    assert row["saving_ratio_low"] <= row["saving_ratio"] <= row["saving_ratio_high"]
    assert row["saving_usd"] == pytest.approx(row["saving_usd_per_hour"] / 6)


def test_the_shares_of_a_machine_add_up_to_its_price(spans: SpansByStart, advisor: Advisor) -> None:
    rented = {"instance": "p3.16xlarge", "cloud": "aws", "region": "us-east-1"}
    name = "Tesla V100-SXM2-16GB"
    devices = [device("n", index, name, **rented) for index in range(8)]
    jobs = told(spans, advisor, *(finding(of, span(of, period=11.0 * 1.1 ** int(of.label))) for of in devices))
    assert len(jobs) == 8
    paid = [job.saving.usd_per_hour for job in jobs if job.saving is not None]
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("p3.16xlarge", "us-east-1"))
    assert sum(paid) == pytest.approx(whole.usd_per_hour or 0)
    assert sum(GpuPrices(advisor).of(of).usd_per_hour or 0 for of in devices) == pytest.approx(whole.usd_per_hour or 0)


def test_a_saving_is_that_of_the_first_line(spans: SpansByStart, advisor: Advisor) -> None:
    (job,) = told(spans, advisor, finding(device("n", 0), span(device("n", 0))))
    found = job.recommendation
    assert found is not None and found.verdict.best is not None and found.current is not None
    half = replace(found.verdict.best.prediction, ratio=0.5, ratio_low=0.4, ratio_high=0.7)
    best, now = replace(found.verdict.best, prediction=half, usd_per_hour=1.5), replace(found.current, usd_per_hour=1.0)
    saving = saving_of(replace(found, verdict=replace(found.verdict, best=best), current=now))
    assert saving is not None and (saving.ratio, saving.low, saving.high) == pytest.approx((0.25, -0.05, 0.4))
    assert saving_of(replace(found, current=None)) is None


def test_the_gpu_that_the_others_wait_for_is_found(spans: SpansByStart, advisor: Advisor) -> None:
    devices = [device("n", index) for index in range(4)]
    works = [0.80, 0.81, 1.0, 0.79]
    (job,) = told(spans, advisor, *(finding(of, span(of, more_work=more)) for of, more in zip(devices, works, strict=True)))
    assert job.straggler is not None and job.spans[job.straggler.place].report.device.uuid == "GPU-n-2"
    assert job.straggler.waits == pytest.approx(0.2) and "sm_active" in job.straggler.why


def test_a_gpu_with_a_lower_clock_holds_the_others_up_also_of_a_pair(spans: SpansByStart, advisor: Advisor) -> None:
    devices = [device("n", index) for index in range(2)]
    (job,) = told(spans, advisor, *(finding(of, span(of, clock=low)) for of, low in zip(devices, (0.8, 1.0), strict=True)))
    assert job.straggler is not None and job.spans[job.straggler.place].report.device.label == "0"
    busy = span(devices[0]).report.profile
    assert busy is not None and job.straggler.waits == pytest.approx(0.2 * busy.metrics["gr_engine_active"]["mean"])
    assert "clock" in job.straggler.why


@pytest.mark.parametrize(("beside", "whole"), [("works", False), ("idle", True)])
def test_a_gpu_with_steps_may_be_part_of_a_job_only_where_others_work(
    spans: SpansByStart, advisor: Advisor, beside: str, whole: bool
) -> None:
    of, other = device("n", 0), device("n", 1)
    others = [span(other, verdict="steps", period=0.9)] if beside == "works" else []
    jobs = told(spans, advisor, finding(of, span(of, verdict="steps", period=0.5)), finding(other, *others))
    job = next(job for job in jobs if job.answer.gpus == (of.uuid,))
    assert job.complete is whole and (whole or not job.sure)
    assert any("were busy too" in note for note in job.answer.notes) is not whole


@pytest.mark.parametrize("works", [[0.8, 1.0], [1.0, 0.97, 1.02, 0.98], [0.7, 0.8, 0.9, 1.0]])
def test_nobody_holds_up_a_pair_equals_or_a_staircase(spans: SpansByStart, advisor: Advisor, works: list[float]) -> None:
    devices = [device("n", index) for index in range(len(works))]
    (job,) = told(spans, advisor, *(finding(of, span(of, more_work=more)) for of, more in zip(devices, works, strict=True)))
    assert job.straggler is None


def test_a_gpu_with_longer_epochs_is_a_straggler_of_a_named_job(spans: SpansByStart, advisor: Advisor) -> None:
    findings = []
    for index, period in enumerate((30.0, 30.1, 34.0)):
        one = span(device("n", index), period=period)
        named = replace(one, report=replace(one.report, owners=(Owner(1, "python", slurm_job="5"),)))
        findings.append(finding(device("n", index), named))
    (job,) = told(spans, advisor, *findings)
    assert job.answer.id == "slurm-5" and job.straggler is not None
    assert job.spans[job.straggler.place].report.device.label == "2"
    assert job.straggler.waits == pytest.approx(1 - 30.05 / 34)


@pytest.mark.parametrize(
    ("verdict", "sure", "action"), [("epochs", True, "move"), ("steps", True, "move"), ("none", False, "measure")]
)
def test_a_saving_is_sure_where_epochs_or_steps_are(
    spans: SpansByStart, advisor: Advisor, verdict: str, sure: bool, action: str
) -> None:
    dear = {"instance": "p3.16xlarge", "cloud": "aws", "region": "us-east-1"}
    of = device("n", 0, "Tesla V100-SXM2-16GB", **dear)
    predictor = LatencyPredictor.load(catalog=advisor.catalog)
    switched = Advisor(advisor.catalog, predictor, advisor.instances, JobQuestion(switch_usd=0.0))
    [job] = told(spans, switched, finding(of, span(of, verdict=verdict)))
    assert job.complete and job.saving is not None and job.advice is not None
    assert (job.sure, job.advice.action) == (sure, action)


def test_an_idle_job_is_told_without_a_prediction(spans: SpansByStart, advisor: Advisor) -> None:
    made = span(device("n", 0))
    assert made.report.profile is not None
    metrics = {"gpu_utilization": dict.fromkeys(STATISTICS, 0.0)}
    profile = replace(made.report.profile, metrics={**made.report.profile.metrics, **metrics})
    (job,) = told(spans, advisor, finding(made.report.device, replace(made, report=replace(made.report, profile=profile))))
    assert job.answer.answer is None and any("the GPU is idle in it" in note for note in job.answer.notes)
