"""What the report adds up, figure by figure: GPUs, idle hours, jobs, waits; and the rows of the jobs table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.answers.advisor import Advisor
from epochcast.analyzer.fleet import gpu_tally, jobs_table
from epochcast.analyzer.fleet.finding import Failure, Finding, JobSpan
from epochcast.analyzer.fleet.fleet_jobs import FleetJob
from epochcast.analyzer.fleet.gpu_tally import GpuTally, SeenTime
from epochcast.analyzer.fleet.job_answers import jobs_of
from epochcast.analyzer.fleet.job_tally import JobTally
from epochcast.analyzer.fleet.jobs_table import row_of, write_jobs
from epochcast.analyzer.fleet.savings import GpuPrices, Saving
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.stragglers import straggler_of
from epochcast.analyzer.instances.rented import rented
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.regressor.profile import STATISTICS

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
        for part in (job.answer.prediction, job.answer.recommendation):
            assert part is not None and (part.ofu, part.held_idle_s) == (job.answer.ofu, job.answer.held_idle_s)
    assert (rows["n"]["ofu"], rows["n"]["held_idle_s"], rows["n"]["held_idle_usd"]) == (pytest.approx(0.4), 90.0, None)
    assert rows["n"]["reduced_clock"].startswith("11 % of an epoch at reduced clock: power cap (SM clock at ")
    assert rows["m"]["held_idle_usd"] == pytest.approx(36 / 3600 * (whole.usd_per_hour or 0))
    assert [rows["k"][name] for name in ("ofu", "held_idle_s", "held_idle_usd", "reduced_clock")] == [None] * 4
    use = tally.to_json(1.0, None)["use"]
    # 0.4 of 1200 GPU-seconds and 0.1 of as many; the job without tensor activity does not count.
    assert use["ofu"] == pytest.approx(0.25) and use["ofu_gpu_hours"] == pytest.approx(2400 / 3600)
    assert (use["tensor_cores_idle_jobs"], use["reduced_clock_jobs"]) == (0, 1)


def test_tensor_cores_that_idle_are_counted(advisor: Advisor, tmp_path: Path) -> None:
    one = used(device("n", 0), tensor_clock=0.0)
    profile = one.report.profile
    assert profile is not None
    flat = {name: dict.fromkeys(STATISTICS, mean) | {"std": 0.0} for name, mean in (("sm_active", 0.9), ("fp32_active", 0.6))}
    nothing = dict.fromkeys(STATISTICS, 0.0)
    busy = replace(profile, metrics={**profile.metrics, **flat, "tensor_active": nothing})
    (job,) = jobs(advisor, tmp_path, replace(one, report=replace(one.report, profile=busy)))
    tally = JobTally()
    tally.add(job, row_of(job))
    assert tally.to_json(1.0, None)["use"]["tensor_cores_idle_jobs"] == 1 and job.answer.tensor_cores_idle


def test_a_price_is_that_of_the_place(advisor: Advisor) -> None:
    prices = GpuPrices(advisor)
    places = [RENTED, {}, {"cloud": "gcp"}]
    found = [prices.of(device("n", 0, "Tesla V100-SXM2-16GB", **place)) for place in places]
    assert [one.assumed for one in found] == [False, True, True]
    assert len({one.usd_per_hour for one in found}) > 1


def test_what_was_found_on_a_gpu_is_the_best_of_its_stretches(advisor: Advisor) -> None:
    of = device("n", 0)
    steps, none = span(of, verdict="steps", period=0.5), span(of, start=BEGAN + 1000, verdict="none")
    told = gpus(advisor, finding(of, steps, none), finding(device("n", 1), none, span(device("n", 1))))
    assert told["found"] == {"epochs": 1, "steps": 1, "none": 0, "idle": 0}
    assert told["cpu_s"] == pytest.approx(1.0)


def test_lengths_of_epochs_are_counted_in_steps_of_1_2_5(advisor: Advisor) -> None:
    of = device("n", 0)
    told = gpus(advisor, *(finding(of, span(of, period=period)) for period in (0.3, 1.0, 1.9, 2.0, 5.0, 49.0, 50.0, 100.0)))
    bins = [(one["from_s"], one["to_s"], one["count"]) for one in told["epoch_lengths"]]
    expected = [(0.2, 0.5, 1), (1, 2, 2), (2, 5, 1), (5, 10, 1), (20, 50, 1), (50, 100, 1), (100, 200, 1)]
    assert bins == [pytest.approx(one) for one in expected]


def test_two_traces_of_one_gpu_cover_its_time_twice_as_much(advisor: Advisor) -> None:
    of = device("n", 0)
    first = finding(of)
    later = replace(first, trace="n/later.parquet", start=first.end, end=first.end + 600)
    assert gpus(advisor, first, later)["coverage"] == pytest.approx(1.0)
    assert gpus(advisor, first, later)["gpus"] == 1


def test_kinds_of_problems_are_bounded_and_the_rest_is_counted(advisor: Advisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_tally, "_MOST_KINDS", 30)
    tally = GpuTally(GpuPrices(advisor))
    letters = [chr(ord("a") + number // 26) + chr(ord("a") + number % 26) for number in range(40)]
    for number, letter in enumerate(letters):
        tally.fail(Failure(f"{number:02}", "1", f"'{number}' of {letter} at {number}.5"))
        tally.fail(Failure(f"x{number:02}", "1", f"'{number}' of aa"))
    kinds = tally.to_json()["failures"]["kinds"]
    assert kinds[0] == {"count": 40, "example": "'0' of aa", "trace": "x00"}
    assert sum(one["count"] for one in kinds) == 80
    assert len(kinds) == gpu_tally.TABLE_ROWS + 1 and kinds[-1]["example"] == "of other kinds"


def test_the_row_of_a_job_of_unequal_gpus(advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = span(device("n", 0), seconds=400, busy_ratio=0.9, energy_j=5.0, memory_bytes=1e9)
    long = span(device("n", 1), seconds=600, busy_ratio=0.4, memory_bytes=4e9)
    (job,) = jobs(advisor, tmp_path, short, long)
    row = row_of(job)
    assert row["busy_ratio"] == pytest.approx((0.9 * 400 + 0.4 * 600) / 1000)
    assert row["energy_j"] is None, "the sum of what one GPU tells would be too little"
    assert (row["memory_bytes"], row["epochs"], row["gpu_count"]) == (4e9, 19, 2)
    assert row["gpu_hours"] == pytest.approx(1000 / 3600) and job.seconds == pytest.approx(500)
    monkeypatch.setattr(jobs_table, "_ROWS", 2)
    with (tmp_path / "jobs.parquet").open("wb") as file:
        write_jobs([row] * 5, file)
    assert pq.read_table(tmp_path / "jobs.parquet").num_rows == 5


def test_a_job_on_several_machines_pays_its_share_of_all_of_them(advisor: Advisor, tmp_path: Path) -> None:
    of_eight = [device(node, 0, "NVIDIA A100-SXM4-40GB", instance="a2-highgpu-8g", cloud="gcp") for node in ("n", "m")]
    machine = rented("A100 SXM4 40GB", 8, advisor.instances, devices=of_eight).instance
    assert machine is not None and machine.usd_per_hour is not None
    folders = [Path(mkdtemp(dir=tmp_path)) for _ in range(2)]
    alone, pair = (jobs(advisor, folder, *map(span, of_eight[: n + 1]))[0] for n, folder in enumerate(folders))
    assert alone.saving is not None and alone.saving.usd_per_hour == pytest.approx(machine.usd_per_hour / 8)
    found = pair.answer.recommendation
    assert found is not None and found.current is not None and len(pair.answer.gpus) == 2
    assert found.current.usd_per_hour == pytest.approx(2 * machine.usd_per_hour * 2 / 16)


def test_savings_and_waits_add_up(advisor: Advisor, tmp_path: Path) -> None:
    a100s = [device("n", index, "NVIDIA A100-SXM4-40GB", instance="a2-highgpu-8g", cloud="gcp") for index in range(2)]
    spans = [span(of, clock=0.8 if of.label == "1" else 1.0) for of in a100s]
    pair = replace(jobs(advisor, tmp_path, *spans)[0], complete=True)
    alone = jobs(advisor, tmp_path, span(device("m", 0)))[0]
    assert pair.saving is not None and pair.straggler is not None
    to = pair.saving.to.model_copy(update={"fits": True})
    tally = JobTally()
    for one, ratio, low in ((pair, 0.5, 0.3), (alone, 0.4, -0.1), (alone, -0.2, -0.3), (alone, 0.0, -0.1)):
        weighed = replace(one, saving=Saving(6.0, to, ratio, low, ratio + 0.1))
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
    assert straggler_of([replace(one, verdict="none") for one in reports], None) is None


def test_more_work_counts_from_10_per_cent() -> None:
    for most, found in ((1.08, None), (1.12, 2)):
        reports = [span(device("n", index), more_work=0.8 * more).report for index, more in enumerate((1.0, 1.0, most))]
        told = straggler_of(reports, None)
        assert (None if told is None else told.place) == found


def test_a_gpu_with_two_jobs_shares_its_node_with_nobody(tmp_path: Path) -> None:
    with SpansByStart(tmp_path / "spans") as held:
        for of, start in ((device("a", 0), 0.0), (device("a", 0), 5000.0), (device("b", 0), 0.0), (device("b", 1), 0.0)):
            held.add("x", span(of, start=BEGAN + start))
        assert held.shared_nodes() == {"b"}


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


def test_copies_cover_no_more_than_all_of_the_time(advisor: Advisor) -> None:
    one = finding(device("n", 0))
    assert gpus(advisor, one, one)["coverage"] == 1.0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=30))
def test_each_second_counts_once(intervals: list[tuple[int, int]]) -> None:
    """The union of intervals, next to one that counts every second."""
    seen = SeenTime()
    for start, end in intervals:
        seen.add(start, end)
    assert seen.seconds == len({second for start, end in intervals for second in range(start, end)})
