"""A price older than a year never wins against a fresh one; where all are, they are ranked and the first line says so."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.prices import STALE_DAYS, Instance, rented
from epochcast.analyzer.jobs.questions import JobQuestion, example_profile
from epochcast.regressor import LatencyPredictor
from epochcast.regressor.profile_json import read_profile

from ...price_day import PRICE_DAY
from .made_reports import where

FRESH, STALE = PRICE_DAY - timedelta(days=STALE_DAYS), PRICE_DAY - timedelta(days=STALE_DAYS + 1)


def said(advisor: Advisor, *instances: Instance) -> Any:
    """The recommendation for the example job, which runs on a T4."""
    own = Advisor(advisor.catalog, LatencyPredictor.load(catalog=advisor.catalog), instances)
    job = read_profile(example_profile())
    return where(own.answer([job], JobQuestion(), recommend=True))


def priced(gpu: str, usd: float, *, stale: bool) -> Instance:
    return Instance("aws", f"with-{gpu}", gpu, 1, "us-east-1", usd, "a page", STALE if stale else FRESH)


def test_a_stale_price_ranks_last_and_never_wins(advisor: Advisor) -> None:
    answer = said(advisor, priced("T4", 0.5, stale=False), priced("A10G", 0.001, stale=True))
    assert [row.pareto for row in answer.placements] == [True, False] and answer.verdict.best.instance.gpu == "T4"


def test_an_old_price_of_what_the_job_runs_on_is_said_in_the_first_line(advisor: Advisor) -> None:
    answer = said(advisor, priced("T4", 0.01, stale=True), priced("A10G", 1.0, stale=False))
    assert answer.verdict.action == "stay" and answer.verdict.text.endswith(f"; by a price of {STALE}")
    notes = " | ".join(answer.notes)
    assert "1 of 2 prices is older than a year" in notes, "as it would be the cheapest"


def test_a_stale_price_that_decides_nothing_is_marked_and_no_more(advisor: Advisor) -> None:
    answer = said(advisor, priced("T4", 0.5, stale=False), priced("A10G", 90.0, stale=True))
    assert [row.price_stale for row in answer.placements] == [False, True]
    assert answer.current and not any("older than a year" in text for text in (*answer.notes, answer.verdict.text))


def test_what_a_job_is_taken_to_run_on_has_a_fresh_price_if_any_has() -> None:
    stale, fresh = priced("T4", 0.1, stale=True), replace(priced("T4", 5.0, stale=False), name="fresh")
    assert rented("T4", 1, [stale, fresh]).instance == fresh
    assert rented("T4", 1, [stale]).instance == stale


def test_the_first_line_says_that_all_prices_are_stale(
    advisor: Advisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, profile = tmp_path / "prices.csv", tmp_path / "job.json"
    rows = f"aws,g4dn.xlarge,T4,1,us-east-1,0.5,a page,{STALE}\naws,g5.xlarge,A10G,1,us-east-1,1,a page,{STALE}\n"
    table.write_text(f"cloud,instance,gpu,count,region,usd_per_hour,source,date\n{rows}")
    profile.write_text(json.dumps(example_profile()))
    assert main(["recommend", str(profile), "--prices", str(table)]) == 0
    out, _ = capsys.readouterr()
    assert f"by a price of {STALE}" in " ".join(out.split("\n\n")[0].split())
    assert main(["recommend", str(profile), "--prices", str(table), "--all"]) == 0
    assert "2 of 2 prices are older than a year" in capsys.readouterr().out
