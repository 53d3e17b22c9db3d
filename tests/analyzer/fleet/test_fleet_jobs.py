"""Who trains together in a fleet's history, what moving a job would save, and who holds it up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.fleet.fleet_jobs import groups_of
from epochcast.analyzer.fleet.job_rows import job_rows
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.stragglers import straggler_of
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.grouping import grouped
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.telemetry.gpu_report import NOTHING, Owner
from epochcast.regressor import LatencyPredictor

from .made_findings import BEGAN, device, finding, fleet, span


@pytest.fixture
def spans() -> SpansByStart:
    return SpansByStart()


def put(spans: SpansByStart, *findings: Any) -> None:
    for one in findings:
        for each in one.spans:
            spans.add(each)


def rows_of(spans: SpansByStart, advisor: Advisor, *findings: Any) -> list[dict[str, Any]]:
    put(spans, *findings)
    return list(job_rows(spans, advisor))


def test_a_copy_of_a_trace_counts_once_whichever_comes_first() -> None:
    of = device("n", 0)
    copies = [finding(of, replace(span(of), trace=name)) for name in ("b/0.parquet", "a/0.parquet")]
    kept = []
    for order in (copies, copies[::-1]):
        spans = SpansByStart()
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
    found = {group.id: {(one.report.device.uuid, one.start) for one in own} for group, own in groups_of(spans, most=most)}
    at_once = {
        group.id: {(report.device.uuid, report.job_since) for report in reports}
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


def test_a_job_has_its_traces_and_its_price(spans: SpansByStart, advisor: Advisor) -> None:
    jobs = rows_of(spans, advisor, *fleet(2))
    assert sorted(job["gpu_count"] for job in jobs) == [1, 1, 2, 2, 4, 4]
    row = next(job for job in jobs if job["gpu_count"] == 4 and job["nodes"] == ("node-00001",))
    assert (row["grouped_by"], row["verdict"], row.get("straggler")) == ("phase", "epochs", None)
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
    devices = [device("n", index, "Tesla V100-SXM2-16GB", **rented) for index in range(8)]
    jobs = rows_of(spans, advisor, *(finding(of, span(of, period=11.0 * 1.1 ** int(of.label))) for of in devices))
    assert len(jobs) == 8
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("p3.16xlarge", "us-east-1"))
    assert sum(job["current_usd_per_hour"] for job in jobs) == pytest.approx(whole.usd_per_hour or 0)


@pytest.mark.parametrize(
    ("alike", "straggler", "waits", "why"),
    [
        ([{"more_work": more} for more in (0.80, 0.81, 1.0, 0.79)], 2, 0.2, "sm_active"),
        ([{"clock": clock} for clock in (0.8, 1.0)], 0, None, "clock"),
        *(
            ([{"more_work": more} for more in works], None, None, "")
            for works in ([0.8, 1.0], [1.0, 0.97, 1.02, 0.98], [0.7, 0.8, 0.9, 1.0])
        ),
    ],
)
def test_the_gpu_that_the_others_wait_for_is_found(
    spans: SpansByStart,
    advisor: Advisor,
    alike: list[dict[str, float]],
    straggler: int | None,
    waits: float | None,
    why: str,
) -> None:
    """Nobody holds up a pair that differs in work alone, equals, or a staircase."""
    found = [finding(device("n", index), span(device("n", index), **one)) for index, one in enumerate(alike)]
    (job,) = rows_of(spans, advisor, *found)
    if straggler is None:
        assert "straggler" not in job
        return
    busy = found[0].spans[0].report.profile
    assert busy is not None and why in job["straggler_why"]
    assert (job["straggler"], job["straggler_trace"]) == (f"GPU-n-{straggler}", f"n/{straggler}.parquet")
    share = 0.2 * busy.metrics["gr_engine_active"]["mean"] if waits is None else waits
    assert job["waits"] == pytest.approx(share)
    assert job["waits_gpu_hours"] == pytest.approx(share * (len(alike) - 1) / 6), "the straggler does not wait"


@pytest.mark.parametrize(("clocks", "found"), [((0.95, 1.0, 1.0), 0), ((0.97, 1.0, 1.0), None), ((0.9, 1.0, 0.93, 1.0), None)])
def test_a_lower_clock_counts_from_4_per_cent_and_beyond_what_the_others_differ(
    clocks: tuple[float, ...], found: int | None
) -> None:
    reports = [span(device("n", index), clock=clock).report for index, clock in enumerate(clocks)]
    straggler = straggler_of(reports, None)
    assert (None if straggler is None else straggler[0]) == found
    assert straggler_of([replace(one, detection=NOTHING) for one in reports], None) is None


@pytest.mark.parametrize(("beside", "whole"), [("works", False), ("idle", True)])
def test_a_gpu_with_steps_may_be_part_of_a_job_only_where_others_work(
    spans: SpansByStart, advisor: Advisor, beside: str, whole: bool
) -> None:
    of, other = device("n", 0), device("n", 1)
    others = [span(other, verdict="steps", period=0.9)] if beside == "works" else []
    jobs = rows_of(spans, advisor, finding(of, span(of, verdict="steps", period=0.5)), finding(other, *others))
    job = next(job for job in jobs if job["gpus"] == (of.uuid,))
    assert job["whole"] is whole and (whole or not job["saving_sure"])
    assert any("were busy too" in note for note in job["notes"]) is not whole


def test_a_gpu_with_longer_epochs_is_a_straggler_of_a_named_job(spans: SpansByStart, advisor: Advisor) -> None:
    findings = []
    for index, period in enumerate((30.0, 30.1, 34.0)):
        one = span(device("n", index), period=period)
        named = replace(one, report=replace(one.report, owners=(Owner(1, "python", slurm_job="5"),)))
        findings.append(finding(device("n", index), named))
    (job,) = rows_of(spans, advisor, *findings)
    assert (job["job"], job["straggler"]) == ("slurm-5", "GPU-n-2")
    assert job["waits"] == pytest.approx(1 - 30.05 / 34)


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
    [job] = rows_of(spans, switched, finding(of, span(of, verdict=verdict)))
    assert (job["whole"], job["saving_sure"], job["action"]) == (True, sure, action)
