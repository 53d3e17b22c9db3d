"""What the report adds up, figure by figure: GPUs, idle hours, jobs, waits; and the rows of the jobs table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.fleet.finding import Finding, JobSpan
from epochcast.analyzer.fleet.fleet_jobs import FleetJob
from epochcast.analyzer.fleet.gpu_tally import GpuTally
from epochcast.analyzer.fleet.job_answers import jobs_of
from epochcast.analyzer.fleet.job_tally import JobTally
from epochcast.analyzer.fleet.jobs_table import row_of
from epochcast.analyzer.fleet.savings import GpuPrices, Saving
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.stragglers import straggler_of
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.telemetry.gpu_report import NOTHING, GpuDevice

from .made_findings import BEGAN, WHOLE, device, finding, span

RENTED = {"instance": "p3.16xlarge", "cloud": "aws", "region": "us-east-1"}


def gpus(advisor: Advisor, *findings: Finding) -> dict[str, Any]:
    tally = GpuTally(GpuPrices(advisor))
    for one in findings:
        tally.add(one)
    return tally.to_json()


def jobs(advisor: Advisor, folder: Path, *spans: JobSpan) -> list[FleetJob]:
    with SpansByStart(folder / "spans") as held:
        for one in spans:
            held.add(f"{one.report.device.node}/{one.report.device.label}.parquet", one)
        return [job for job, _ in jobs_of(held, advisor)]


def test_idle_hours_cost_the_share_of_a_machine(advisor: Advisor) -> None:
    v100 = device("n", 0, "Tesla V100-SXM2-16GB", **RENTED)
    unknown, assumed = device("n", 1, "Voodoo 5"), device("n", 2)
    silent = finding(device("n", 3), idle_s=None)
    told = gpus(advisor, finding(v100, idle_s=150.0), finding(unknown, idle_s=60.0), finding(assumed, idle_s=30.0), silent)[
        "idle"
    ]
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("p3.16xlarge", "us-east-1"))
    t4 = GpuPrices(advisor).of(assumed)
    assert t4.assumed and t4.usd_per_hour
    assert told["idle_usd"] == pytest.approx(150 / 3600 * (whole.usd_per_hour or 0) / 8 + 30 / 3600 * t4.usd_per_hour)
    assert (told["unpriced"], told["assumed"], told["gpus"]) == (1, 1, 3)
    assert told["known_hours"] == pytest.approx(3 * 600 / 3600)
    assert told["idle_ratio"] == pytest.approx(240 / 1800)
    assert told["gpu_hours"] == pytest.approx(4 * 600 / 3600)


def test_held_but_idle_hours_cost_only_where_it_is_known_what_is_rented(advisor: Advisor) -> None:
    v100, assumed = device("n", 0, "Tesla V100-SXM2-16GB", **RENTED), device("n", 2)
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("p3.16xlarge", "us-east-1"))
    held = replace(finding(v100, idle_s=150.0), held_idle_s=120.0)
    without_price = replace(finding(assumed, idle_s=100.0), held_idle_s=60.0)
    told = gpus(advisor, held, without_price, finding(device("n", 3), idle_s=600.0))
    usd = 120 / 3600 * (whole.usd_per_hour or 0) / 8
    idle, models = told["idle"], {row["gpu"]: row for row in told["models"]}
    assert (idle["held_idle_hours"], idle["held_idle_unpriced_hours"]) == (pytest.approx(180 / 3600), pytest.approx(60 / 3600))
    assert idle["held_idle_usd"] == models["Tesla V100-SXM2-16GB"]["held_idle_usd"] == pytest.approx(usd)
    assert models["Tesla T4"]["held_idle_usd"] is None and models["Tesla T4"]["held_idle_hours"] == pytest.approx(60 / 3600)
    rows = {row["trace"]: row for row in idle["worst"]}
    assert rows["n/0.parquet"]["held_idle_usd"] == pytest.approx(usd)
    assert (rows["n/2.parquet"]["held_idle_usd"], rows["n/3.parquet"]["held_idle_hours"]) == (None, None)
    assert GpuPrices(advisor).of(v100).held_idle_usd(None) is None
    nothing = gpus(advisor, finding(v100))["idle"]
    assert (nothing["held_idle_hours"], nothing["held_idle_usd"]) == (None, None)


def used(of: GpuDevice, seconds: float = 600.0, period: float = 30.0, **use: Any) -> JobSpan:
    """A stretch whose profile says how its GPU was used; a T4 has a boost clock of 1.59 GHz."""
    one = span(of, seconds=seconds, period=period)
    assert one.report.profile is not None
    return replace(one, report=replace(one.report, profile=replace(one.report.profile, **use)))


def test_how_well_jobs_use_their_gpus(advisor: Advisor, tmp_path: Path) -> None:
    place = {"instance": "g4dn.xlarge", "cloud": "aws", "region": "us-east-1"}
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("g4dn.xlarge", "us-east-1"))
    throttled = {"power_cap": 0.11, "thermal": 0.02}
    pair = [
        used(device("n", at), tensor_clock=ofu * 1.59e9, held_idle_s=45.0, throttled=throttled)
        for at, ofu in ((0, 0.3), (1, 0.5))
    ]
    half = used(device("m", 0, **place), seconds=1200.0, period=41.0, tensor_clock=0.1 * 1.59e9, held_idle_s=36.0)
    silent = used(device("k", 0), seconds=900.0, period=17.0)
    tally, rows = JobTally(), {}
    for job in jobs(advisor, tmp_path, *pair, half, silent):
        rows[job.answer.nodes[0]] = row_of(job)
        tally.add(job, rows[job.answer.nodes[0]])
        assert job.answer.answer is not None and job.answer.answer.use == job.answer.use
    assert (rows["n"]["ofu"], rows["n"]["held_idle_s"], rows["n"]["held_idle_usd"]) == (pytest.approx(0.4), 90.0, None)
    assert rows["n"]["reduced_clock"].startswith("11 % of an epoch at reduced clock: power cap (SM clock at ")
    assert rows["m"]["held_idle_usd"] == pytest.approx(36 / 3600 * (whole.usd_per_hour or 0))
    assert [rows["k"][name] for name in ("ofu", "held_idle_s", "held_idle_usd", "reduced_clock")] == [None] * 4
    use = tally.to_json(1.0, None)["use"]
    # 0.4 of 1200 GPU-seconds and 0.1 of as many; the job without tensor activity does not count.
    assert use["ofu"] == pytest.approx(0.25) and use["ofu_gpu_hours"] == pytest.approx(2400 / 3600)
    assert (use["tensor_cores_idle_jobs"], use["reduced_clock_jobs"]) == (0, 1)


def test_what_was_found_on_a_gpu_is_the_best_of_its_stretches(advisor: Advisor) -> None:
    of = device("n", 0)
    steps, none = span(of, verdict="steps", period=0.5), span(of, start=BEGAN + 1000, verdict="none")
    told = gpus(advisor, finding(of, steps, none), finding(device("n", 1), none, span(device("n", 1))))
    assert told["found"] == {"epochs": 1, "steps": 1, "none": 0, "idle": 0}
    assert told["cpu_s"] == pytest.approx(1.0)


def _judged(job: FleetJob, *, certain: bool) -> FleetJob:
    """The job with a first line that is certain, or not."""
    answer, found = job.answer.answer, job.recommendation
    assert answer is not None and found is not None
    answer = replace(answer, recommendation=replace(found, verdict=replace(found.verdict, certain=certain)))
    return replace(job, answer=replace(job.answer, answer=answer))


def test_savings_and_waits_add_up(advisor: Advisor, tmp_path: Path) -> None:
    a100s = [device("n", index, "NVIDIA A100-SXM4-40GB", instance="a2-highgpu-8g", cloud="gcp") for index in range(2)]
    spans = [span(of, clock=0.8 if of.label == "1" else 1.0) for of in a100s]
    pair = replace(jobs(advisor, tmp_path, *spans)[0], complete=True)
    alone = jobs(advisor, tmp_path, span(device("m", 0)))[0]
    assert pair.saving is not None and pair.straggler is not None
    to = replace(pair.saving.to, fits=True)
    tally = JobTally()
    for one, ratio, low in ((pair, 0.5, 0.3), (alone, 0.4, -0.1), (alone, -0.2, -0.3), (alone, 0.0, -0.1)):
        weighed = _judged(replace(one, saving=Saving(6.0, to, ratio, low, ratio + 0.1)), certain=low > 0)
        tally.add(weighed, row_of(weighed))
    unknown = replace(alone, saving=None)
    tally.add(unknown, row_of(unknown))
    told = tally.to_json(hours=2.0, coverage=0.6)
    savings, hour = told["savings"], 600 / 3600
    assert [savings[name]["jobs"] for name in ("sure", "unsure", "stay")] == [1, 1, 2] and savings["unknown"] == 1
    sure = savings["sure"]
    assert (sure["usd"], sure["saved_usd"], sure["low"], sure["high"]) == pytest.approx(
        [6 * hour * x for x in (1, 0.5, 0.3, 0.6)]
    )
    assert savings["usd"] == pytest.approx(4 * 6 * hour)
    assert savings["usd_per_hour"] == pytest.approx(3 * hour / 2)
    assert savings["usd_per_month"] is None, "two hours are no month"
    assert tally.to_json(hours=48.0, coverage=0.6)["savings"]["usd_per_month"] == pytest.approx(730 * 3 * hour / 48)
    assert tally.to_json(hours=48.0, coverage=0.4)["savings"]["usd_per_month"] is None
    assert told["gpus_in_jobs_of_several"] == 2 and told["job_sizes"] == [{"gpus": 1, "jobs": 4}, {"gpus": 2, "jobs": 1}]
    assert told["stragglers"]["gpu_hours"] == pytest.approx(pair.straggler.waits * hour), "the straggler does not wait"


@pytest.mark.parametrize(("clocks", "found"), [((0.95, 1.0, 1.0), 0), ((0.97, 1.0, 1.0), None), ((0.9, 1.0, 0.93, 1.0), None)])
def test_a_lower_clock_counts_from_4_per_cent_and_beyond_what_the_others_differ(
    clocks: tuple[float, ...], found: int | None
) -> None:
    reports = [span(device("n", index), clock=clock).report for index, clock in enumerate(clocks)]
    told = straggler_of(reports, None)
    assert (None if told is None else told.place) == found
    assert straggler_of([replace(one, detection=NOTHING) for one in reports], None) is None


def test_a_trace_without_a_fault_is_none_of_the_least_whole(advisor: Advisor) -> None:
    holes = replace(WHOLE, missing_ratio=0.3, problems=("30% of the ticks are missing",))
    told = gpus(advisor, finding(device("n", 0)), finding(device("n", 1), quality=holes))["quality"]
    assert [row["trace"] for row in told["worst"]] == ["n/1.parquet"] and told["with_problems"] == 1


def test_a_clock_that_jumps_moves_no_figure_of_the_fleet(advisor: Advisor) -> None:
    good = [finding(one := device("n", index), span(one)) for index in range(8)]
    years = 30 * 365.25 * 86_400
    jumping = device("n", 8)
    holes = replace(WHOLE, longest_hole_s=years, holes_s=years)
    bad = finding(jumping, span(jumping, seconds=300), seconds=600 + years, quality=holes)
    told = gpus(advisor, *good, bad)
    assert told["gpu_hours"] == pytest.approx(9 * 600 / 3600)
    assert told["hours"] == pytest.approx(600 / 3600)
    assert told["coverage"] == pytest.approx(1.0)
