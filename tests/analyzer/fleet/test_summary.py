"""What the report adds up, figure by figure: GPUs, idle hours, jobs, waits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.fleet.analyze import write_results
from epochcast.analyzer.fleet.finding import Finding, JobSpan
from epochcast.analyzer.fleet.summary import summary_of
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.telemetry.gpu_report import GpuDevice

from .made_findings import BEGAN, WHOLE, device, finding, span

RENTED = {"instance": "p3.16xlarge", "cloud": "aws", "region": "us-east-1"}
HOUR = 600 / 3600


def summed(advisor: Advisor, out: Path, *findings: Finding) -> dict[str, Any]:
    return write_results(findings, [], advisor, out, analysed="x")


def jobs_in(out: Path) -> dict[str, dict[str, Any]]:
    return {row["nodes"][0]: row for row in pq.read_table(out / "jobs.parquet").to_pylist()}


def v100_usd(advisor: Advisor) -> float:
    whole = next(one for one in advisor.instances if (one.name, one.region) == ("p3.16xlarge", "us-east-1"))
    return (whole.usd_per_hour or 0) / 8


def test_idle_hours_cost_the_share_of_a_machine(advisor: Advisor, tmp_path: Path) -> None:
    v100, unknown, assumed = device("n", 0, "Tesla V100-SXM2-16GB", **RENTED), device("n", 1, "Voodoo 5"), device("n", 2)
    idle_s = (v100, 150.0), (unknown, 60.0), (assumed, 30.0), (device("n", 3), None)
    idle = summed(advisor, tmp_path, *(finding(of, idle_s=seconds) for of, seconds in idle_s))["idle"]
    rows = pq.read_table(tmp_path / "gpus.parquet").to_pylist()
    assert [row["assumed"] for row in rows] == [False, True, True, True]
    assert (rows[1]["idle_usd"], rows[3]["idle_usd"]) == (None, None) and rows[2]["idle_usd"] > 0
    assert idle["idle_usd"] == pytest.approx(150 / 3600 * v100_usd(advisor) + rows[2]["idle_usd"])
    assert (idle["unpriced"], idle["assumed"], idle["gpus"]) == (1, 1, 3)
    assert (idle["known_hours"], idle["idle_ratio"], idle["gpu_hours"]) == pytest.approx((3 * HOUR, 240 / 1800, 4 * HOUR))


def test_held_but_idle_hours_cost_only_where_it_is_known_what_is_rented(advisor: Advisor, tmp_path: Path) -> None:
    held = replace(finding(device("n", 0, "Tesla V100-SXM2-16GB", **RENTED), idle_s=150.0), held_idle_s=120.0)
    without_price = replace(finding(device("n", 2), idle_s=100.0), held_idle_s=60.0)
    found = summed(advisor, tmp_path, held, without_price, finding(device("n", 3), idle_s=600.0))
    usd = 120 / 3600 * v100_usd(advisor)
    idle, models = found["idle"], {row["gpu"]: row for row in found["models"]}
    assert (idle["held_idle_hours"], idle["held_idle_unpriced_hours"]) == (pytest.approx(180 / 3600), pytest.approx(60 / 3600))
    assert idle["held_idle_usd"] == models["Tesla V100-SXM2-16GB"]["held_idle_usd"] == pytest.approx(usd)
    assert models["Tesla T4"]["held_idle_usd"] is None and models["Tesla T4"]["held_idle_hours"] == pytest.approx(60 / 3600)
    rows = {row["trace"]: row for row in idle["worst"]}
    assert rows["n/0.parquet"]["held_idle_usd"] == pytest.approx(usd)
    assert (rows["n/2.parquet"]["held_idle_usd"], rows["n/3.parquet"]["held_idle_s"]) == (None, None)
    nothing = summed(advisor, tmp_path, finding(device("n", 0)))["idle"]
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
    spans = [*pair, half, used(device("k", 0), seconds=900.0, period=17.0)]
    use = summed(advisor, tmp_path, *(finding(one.report.device, one) for one in spans))["use"]
    rows = jobs_in(tmp_path)
    assert (rows["n"]["ofu"], rows["n"]["held_idle_s"], rows["n"]["held_idle_usd"]) == (pytest.approx(0.4), 90.0, None)
    assert rows["n"]["reduced_clock"].startswith("11 % of an epoch at reduced clock: power cap (SM clock at ")
    assert rows["m"]["held_idle_usd"] == pytest.approx(36 / 3600 * (whole.usd_per_hour or 0))
    assert [rows["k"][name] for name in ("ofu", "held_idle_s", "held_idle_usd", "reduced_clock")] == [None] * 4
    # 0.4 of 1200 GPU-seconds and 0.1 of as many; the job without tensor activity does not count.
    assert use["ofu"] == pytest.approx(0.25) and use["ofu_gpu_hours"] == pytest.approx(2400 / 3600)
    assert (use["tensor_cores_idle_jobs"], use["reduced_clock_jobs"]) == (0, 1)


def test_what_was_found_on_a_gpu_is_the_best_of_its_stretches(advisor: Advisor, tmp_path: Path) -> None:
    of, other = device("n", 0), device("n", 1)
    worked = [span(of, verdict="steps", period=0.5), span(of, start=BEGAN + 1000, verdict="none")]
    also = [span(other, verdict="none", seconds=100), span(other, start=BEGAN + 1000)]
    found = summed(advisor, tmp_path, finding(of, *worked), finding(other, *also), finding(device("n", 2)))
    assert found["found"] == {"epochs": 1, "steps": 1, "none": 0, "idle": 1}
    assert found["cpu_s"] == pytest.approx(1.5)


def test_savings_add_up(advisor: Advisor, tmp_path: Path) -> None:
    summed(advisor, tmp_path, *(finding(device(f"n{at}", 0), span(device(f"n{at}", 0), period=20.0 + at)) for at in range(5)))
    jobs = pq.read_table(tmp_path / "jobs.parquet").to_pandas()
    jobs["current_usd_per_hour"] = [6.0, 6.0, 6.0, 6.0, None]
    jobs["saving_ratio"], jobs["saving_sure"] = [0.5, 0.4, -0.2, 0.0, None], [True, False, False, False, None]
    jobs["saving_ratio_low"], jobs["saving_ratio_high"] = [0.3, -0.1, -0.3, -0.1, None], [0.6, 0.5, -0.1, 0.1, None]
    jobs["saving_usd"] = jobs["saving_ratio"] * HOUR * 6
    pq.write_table(pa.Table.from_pandas(jobs, preserve_index=False), tmp_path / "jobs.parquet")
    savings = summary_of(tmp_path)["savings"]
    assert [savings[name]["jobs"] for name in ("sure", "unsure", "stay")] == [1, 1, 2] and savings["unknown"] == 1
    sure = savings["sure"]
    assert (sure["usd"], sure["saved_usd"], sure["low"], sure["high"]) == pytest.approx(
        [6 * HOUR * x for x in (1, 0.5, 0.3, 0.6)]
    )
    assert savings["usd"] == pytest.approx(4 * 6 * HOUR)
    assert savings["usd_per_hour"] == pytest.approx(3)
    assert [row["job"] for row in savings["most"]] == [jobs["job"][0]]


@pytest.mark.parametrize(("hours", "monthly"), [([2.0], False), ([48.0], True), ([48.0, 0.1, 0.1], False)])
def test_a_month_is_not_made_of_gaps(advisor: Advisor, tmp_path: Path, hours: list[float], monthly: bool) -> None:
    found = summed(advisor, tmp_path, *(finding(device("n", at), seconds=3600 * seen) for at, seen in enumerate(hours)))
    assert found["coverage"] == pytest.approx(sum(hours) / len(hours) / hours[0])
    assert (found["savings"]["usd_per_month"] is not None) is monthly


def test_a_clock_that_jumps_moves_no_figure_of_the_fleet(advisor: Advisor, tmp_path: Path) -> None:
    good = [finding(one := device("n", index), span(one)) for index in range(8)]
    years = 30 * 365.25 * 86_400
    jumping = device("n", 8)
    holes = replace(WHOLE, longest_hole_s=years, holes_s=years)
    bad = finding(jumping, span(jumping, seconds=300), seconds=600 + years, quality=holes)
    found = summed(advisor, tmp_path, *good, bad)
    assert (found["gpu_hours"], found["hours"], found["coverage"]) == pytest.approx((9 * HOUR, HOUR, 1.0))
