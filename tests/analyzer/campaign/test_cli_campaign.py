"""``epochcast campaign``: what it prints and how it exits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.cli import main
from lab.campaign import __main__ as command
from lab.campaign.overhead import MeasuredOverhead, append_overhead
from lab.campaign.runner import Result

from .conftest import CPU

DONE = Result("Net_16", "done", 43.2, 7, 5.25)
FAILED = Result("Net_32", "failed", 3.0, reason="it hung: not finished after 60 s")
LATE = Result("Net_64", "not reached", reason="3 s of the time budget were left")


def _answering(monkeypatch: pytest.MonkeyPatch, results: list[Result]) -> dict[str, Any]:
    asked: dict[str, Any] = {}

    def run_campaign(plan: object, corpus: Path, **options: Any) -> tuple[object, list[Result]]:
        asked.update(options, corpus=corpus)
        return CPU, results

    monkeypatch.setattr(command, "run_campaign", run_campaign)
    return asked


@pytest.mark.parametrize(("results", "status"), [([DONE], 0), ([DONE, FAILED], 1), ([DONE, LATE], 1)])
def test_exit_code_says_whether_all_runs_are_there(
    monkeypatch: pytest.MonkeyPatch, answered: Callable[..., Any], tmp_path: Path, results: list[Result], status: int
) -> None:
    asked = _answering(monkeypatch, results)
    options = ("--out", tmp_path, "--device", "cuda:1", "--time-budget", 60)
    answer = answered("campaign", "run", "paper-grid", *options, status=status)
    assert [run["status"] for run in answer["runs"]] == [result.status for result in results]
    assert (asked["device"], asked["time_budget_s"], asked["retry_failed"]) == ("cuda:1", 60, False)


def test_the_table_shows_reasons_and_what_sampling_cost(
    monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str], tmp_path: Path
) -> None:
    _answering(monkeypatch, [DONE, FAILED, Result("overhead_Net", "done", 60.0, 32, 1.5)])
    for name, value in (("overhead_Net", 0.012), ("overhead_Other", 0.5)):
        append_overhead(
            tmp_path, MeasuredOverhead(name, "Net|16", "CPU", value, -0.01, 0.03, [[1.0]] * 8, [[1.0]] * 8, 0.1, 1e9)
        )
    text = printed("campaign", "run", "paper-grid", "--out", tmp_path, status=1)
    assert "it hung: not finished after 60 s" in text
    assert "5.25 s" in text
    assert "+1.2%" in text and "-1.0% to +3.0%" in text
    assert "+50.0%" not in text, "of another plan"


def test_a_campaign_that_is_stopped_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(command, "run_campaign", stopped)
    with pytest.raises(SystemExit, match="130"):
        main(["campaign", "run", "paper-grid", "--out", str(tmp_path)])
    assert "run the same command again" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "nan"])
def test_a_time_budget_is_above_0(refused: Callable[..., str], seconds: str) -> None:
    said = refused("campaign", "run", "paper-grid", "--time-budget", seconds)
    assert said.startswith(f"epochcast: --time-budget is {seconds}; ")
