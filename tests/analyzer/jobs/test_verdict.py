"""The first line: stay, move, or what is missing to say."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from epochcast.analyzer.jobs import prices
from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.rank import JobLimits, Objective, Placement, WholeJob
from epochcast.analyzer.jobs.verdict import Terms, Verdict, judge
from epochcast.regressor import Prediction
from epochcast.regressor.prediction import Estimate

TODAY = date(2026, 3, 1)
HERE_S = 36_000.0


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "today", lambda: TODAY)


def row(gpu: str, ratio: float, usd: float, width: float = 1.2, route: str = "speeds", fits: bool | None = True) -> Placement:
    """An instance on which the job takes ``ratio`` times ten hours, at a price per hour."""
    instance = Instance("aws", f"with-{gpu}", gpu, 1, "here", usd, "a page", date(2026, 2, 9))
    seconds = Estimate(HERE_S * ratio, HERE_S * ratio / width, HERE_S * ratio * width)
    ends = (seconds.value, seconds.low, seconds.high)
    prediction = Prediction(gpu, ratio, *ends, "test", ratio / width, ratio * width, route, 1.0, ())
    return Placement(instance, "on-demand", usd, prediction, seconds, fits, True)


NOW = row("T4", 1.0, 1.0, width=1.0, route="measured")


def first_line(
    *others: Placement, now: Placement | None = NOW, objective: Objective = "cost", trial_usd: float = 0.1, **terms: Any
) -> Verdict:
    trial = None if any(each.seconds is None for each in others) else lambda one: (5, 3600 * trial_usd)
    limits = terms.pop("limits", JobLimits())
    return judge([NOW, *others], now, Terms(objective, limits, "the 10 epochs in this log", HERE_S, trial=trial, **terms))


def old(placement: Placement, days: int) -> Placement:
    return replace(placement, instance=replace(placement.instance, date=TODAY - timedelta(days)))


def test_moves_for_certain_where_the_chance_is_95_percent() -> None:
    answer = first_line(row("A10G", 0.5, 1.0))
    assert (answer.action, answer.certain, answer.why) == ("move", True, "")
    assert answer.text.replace("\N{NO-BREAK SPACE}", " ") == (
        "Move to aws with-A10G (A10G): certain to cost less, $5.00 ($4.17 to $6.00) instead of $10.00, in 5 h (4.17 to 6.00 h) "
        "instead of 10 h, "
        "for the 10 epochs in this log"
    )
    faster = first_line(row("A10G", 0.5, 2.0), objective="time")
    assert (
        faster.certain
        and "certain to take less, 5\N{NO-BREAK SPACE}h (4.17 to 6.00\N{NO-BREAK SPACE}h) instead of 10" in faster.text
    )


@pytest.mark.parametrize(
    ("best", "says"),
    [
        (row("A10G", 0.5, 1.0, fits=None), "if its memory suffices, which is not known"),
        (row("A10G", 0.7, 1.0, width=2.0), "$7.00 ($3.50 to $14.00)"),
        (old(row("A10G", 0.5, 1.0), 181), "by a price of 2025-09-01"),
    ],
)
def test_probably_where_one_condition_of_certainty_is_missing(best: Placement, says: str) -> None:
    answer = first_line(best)
    assert (answer.action, answer.certain, answer.best) == ("move", False, best)
    assert answer.text.startswith("Probably move to aws with-A10G (A10G)") and says in answer.text
    assert "to find out first, run 5 epochs there" in answer.why


def test_an_old_price_of_what_it_runs_on_is_said() -> None:
    now = old(NOW, 200)
    answer = first_line(row("A10G", 0.5, 1.0), now=now)
    assert not answer.certain and f"by a price of {now.instance.date}" in answer.text


def test_equal_costs_name_the_fastest() -> None:
    """Two cents for ten hours."""
    slow, fast = row("A10G", 1.4, 0.3, width=1.05), row("L40S", 0.6, 0.703, width=1.05)
    answer = first_line(slow, fast)
    assert answer.best is fast and "equal in cost to aws with-A10G (A10G), and 2.3 times as fast" in answer.why


def test_a_data_sheet_never_takes_the_place_of_what_was_measured() -> None:
    measured, sheet = row("A10G", 0.5, 1.0), row("L4", 0.5, 0.5, route="sheet")
    answer = first_line(measured, sheet)
    assert answer.best is measured and answer.certain
    assert "by its data sheet, aws with-L4 (L4) may take 0.50 times the cost" in answer.why
    alone = first_line(sheet)
    assert (alone.action, alone.best) == ("stay", NOW) and "by its data sheet, aws with-L4 (L4) may take 0.25" in alone.why


def test_where_nothing_measured_is_left_a_data_sheet_is_named_as_probable() -> None:
    sheet = row("L4", 0.5, 0.5, route="sheet")
    answer = judge([sheet], NOW, Terms("cost", JobLimits(), "it", HERE_S))
    assert answer.best is sheet and answer.text.startswith("Probably move") and not answer.certain


def test_what_takes_too_long_is_one_line_and_no_move() -> None:
    slow = row("K80", 1.6, 0.2)
    answer = first_line(slow)
    assert (answer.action, answer.best, answer.slower) == ("stay", NOW, slow)
    assert answer.text.endswith("nothing that takes up to 1.5 times as long is more than 5 % cheaper")
    assert first_line(slow, at_most_slower=2.0).best is slow
    alone = judge([slow], NOW, Terms("cost", JobLimits(), "it", HERE_S))
    assert (alone.action, alone.slower) == ("stay", slow) and "more than 1.5 times as long" in alone.text


@pytest.mark.parametrize("others", [(), (row("A10G", 0.9, 2.0),), (row("A10G", 0.99, 1.0, width=1.01),)])
def test_stays_where_nothing_saves_enough(others: tuple[Placement, ...]) -> None:
    answer = first_line(*others)
    assert answer.text == "Stay on aws with-T4 (T4): nothing else is more than 5 % cheaper" and answer.best is NOW


def test_a_move_saves_more_than_switching_and_finding_out() -> None:
    """Half an hour of the present instance is $0.50, and a test run 10 cents."""
    assert first_line(row("A10G", 0.93, 1.0, width=1.01)).action == "move"  # certain, saves $0.70
    little = first_line(row("A10G", 0.945, 1.0))  # saves $0.55
    assert (
        little.action == "stay"
        and "would save $0.55 of $10.00 for the 10 epochs in this log, and switching and finding out takes $0.60" in little.text
    )
    assert first_line(row("A10G", 0.945, 1.0), switch_usd=0.0).action == "move"
    assert first_line(row("A10G", 0.8, 1.0, width=1.4), trial_usd=2.0).action == "stay"


def test_as_cheap_and_much_faster_is_a_move_where_hours_are_saved() -> None:
    answer = first_line(row("H100", 0.2, 5.0))
    assert answer.action == "move" and not answer.certain and "equal in cost, $10.00" in answer.text
    short = [replace(one, seconds=one.seconds and one.seconds.times(0.05)) for one in (NOW, row("H100", 0.2, 5.0))]
    terms = Terms("cost", JobLimits(), "it", 0.05 * HERE_S, trial=lambda one: (5, 60.0))
    answer = judge(short, short[0], terms)
    assert answer.action == "stay" and answer.why == "as cheap, in 0.2 times the time: aws with-H100 (H100)"


def test_what_costs_more_is_never_as_cheap() -> None:
    assert judge([row("H100", 0.2, 20.0)], NOW, Terms("cost", JobLimits(), "it", HERE_S)).why == ""


def test_from_how_many_epochs_on_a_move_pays_is_said() -> None:
    assert first_line(row("A10G", 0.945, 1.0), epochs=100).text.endswith("takes $0.60; worth it from about 110 epochs on")


def test_what_is_assumed_is_said_in_the_first_line() -> None:
    answer = first_line(row("A10G", 0.5, 1.0), assumed=True)
    assert "; assumed: it runs on aws with-T4 (T4) now" in answer.text and not answer.certain
    assert first_line(assumed=True).text.startswith("Stay where it runs (assumed: aws with-T4 (T4))")


def test_what_stays_is_no_saving_and_is_not_uncertain() -> None:
    """Half of the time is a start-up: an epoch in four fifths of the time saves a tenth, and twice the time costs half more."""
    part = Estimate(0.4 * HERE_S, 0.36 * HERE_S, 0.44 * HERE_S)
    job = WholeJob(part, 0.0, 0.0, 0.5 * HERE_S)
    best = replace(row("A10G", 0.8, 1.0, width=1.1), job=job, seconds=job.seconds)
    assert first_line(best).certain
    assert not first_line(replace(best, prediction=row("A10G", 0.8, 1.0, width=1.5).prediction)).certain


def test_what_misses_a_limit_moves_to_what_keeps_it_with_some_certainty() -> None:
    half = replace(row("A10G", 0.5, 4.0), deadline_chance=0.55)
    likely = replace(row("L40S", 0.3, 8.0), deadline_chance=0.96)
    terms = Terms("cost", JobLimits(deadline_s=0.6 * HERE_S), "it", HERE_S)
    answer = judge([half, likely], NOW, terms)
    assert answer.best is likely
    assert (
        answer.text
        == "Move to aws with-L40S (L40S): aws with-T4 (T4) would miss the deadline; $24.00 in 3\N{NO-BREAK SPACE}h there"
    )
    alone = judge([half], NOW, terms)
    assert alone.text.startswith("Probably move to aws with-A10G (A10G): aws with-T4 (T4) would miss the deadline, and the")
    assert "the chance of finishing in time on the other is 55 %; $20.00" in alone.text


def test_a_job_that_does_not_fit_where_it_runs_does_not_stay() -> None:
    answer = first_line(row("A100", 0.9, 3.0), now=replace(NOW, fits=False))
    assert "aws with-T4 (T4) has too little memory; $" in answer.text


def test_ratios_alone_are_of_equal_work() -> None:
    now, other = (replace(one, seconds=None) for one in (NOW, row("A10G", 0.5, 1.0)))
    answer = judge([other, now], now, Terms("cost", JobLimits(), "no epochs found, so there is no cost of a job", 1.0))
    assert (answer.action, answer.best, answer.certain) == ("measure", other, False)
    assert answer.text.startswith("aws with-A10G (A10G) probably does the same work for 0.50 times the cost (0.42 to 0.60)")
    assert answer.why == "no epochs found, so there is no cost of a job"


def test_more_gpus_of_the_same_instance() -> None:
    two = replace(NOW, instance=replace(NOW.instance, count=2), usd_per_hour=1.0)
    both = replace(two, prediction=replace(row("T4", 0.55, 1.0, width=1.1, route="scaled").prediction, gpus=2))
    both = replace(both, seconds=Estimate(0.55 * HERE_S, 0.5 * HERE_S, 0.605 * HERE_S))
    answer = judge([both], two, Terms("cost", JobLimits(), "it", HERE_S))
    assert answer.text.startswith("Use all GPUs of aws with-T4 (2 x T4): certain to cost less")


def test_without_a_price_or_an_instance_there_is_nothing_to_compare() -> None:
    answer = first_line(row("A10G", 0.5, 1.0), now=None)
    assert answer.action == "choose" and answer.text.startswith("aws with-A10G (A10G) is probably the cheapest: $5.00 in 5")
    equal, slow = (first_line(row("A10G", 0.5, 1.0), other, now=None) for other in (row("L40S", 0.9, 0.55), row("L4", 3, 0.1)))
    assert "A10G (A10G) is probably among the cheapest: $5.00" in equal.text
    assert "A10G (A10G) is probably the cheapest that takes up to 1.5 times as long: $5.00" in slow.text
    assert judge([], NOW, Terms("cost", JobLimits(), "it", HERE_S)).action == "none"
