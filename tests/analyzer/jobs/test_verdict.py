"""What to do with a job: stay, move, or measure first."""

from dataclasses import replace
from datetime import date

import pytest

from epochcast.analyzer.jobs.decide import Trial, decide
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.rank import JobLimits, Objective
from epochcast.analyzer.jobs.verdict import Verdict, verdict
from epochcast.analyzer.jobs.whole_job import WholeJob
from epochcast.regressor import Prediction
from epochcast.regressor.prediction import Estimate


def row(gpu: str, ratio: float, usd: float, width: float = 1.2, route: str = "speeds", fits: bool | None = True) -> Placement:
    """An instance on which the job takes ``ratio`` times 100 s, at a price per hour."""
    instance = Instance("aws", f"with-{gpu}", gpu, 1, "here", usd, "a page", date(2026, 2, 9))
    seconds = Estimate(100 * ratio, 100 * ratio / width, 100 * ratio * width)
    ends = (seconds.value, seconds.low, seconds.high)
    prediction = Prediction(gpu, ratio, *ends, "test", ratio / width, ratio * width, route, 1.0, ())
    return Placement(instance, "on-demand", usd, prediction, seconds, fits, True)


NOW = row("T4", 1.0, 1.0, width=1.0, route="measured")


def said(*others: Placement, now: Placement | None = NOW, objective: Objective = "cost", test_s: float = 60.0) -> Verdict:
    rows = sorted([NOW, *others], key=lambda one: one.prediction.ratio * (one.usd_per_hour if objective == "cost" else 1))
    return verdict(decide(rows, objective, lambda one: Trial(one, 5, test_s)), now, objective, "epoch")


def test_moves_where_all_of_the_interval_saves() -> None:
    answer = said(row("A10G", 0.5, 1.0))
    assert (answer.action, answer.text) == ("move", "Move to aws with-A10G (A10G): 40 to 58 % cheaper")
    assert answer.why == "the job takes 0.5 times the time there, at 1 times the price per hour"
    assert said(row("A10G", 0.5, 2.0), objective="time").text == "Move to aws with-A10G (A10G): takes 40 to 58 % less time"


def test_what_it_costs_by_the_other_objective_is_said_with_it() -> None:
    slow, dear = said(row("K80", 3.0, 0.2)), said(row("A10G", 0.5, 4.0), objective="time")
    assert slow.text == "Move to aws with-K80 (K80): 28 to 50 % cheaper, in 3 times the time"
    assert dear.text == "Move to aws with-A10G (A10G): takes 40 to 58 % less time, at 2 times the cost"


@pytest.mark.parametrize("others", [(), (row("A10G", 0.9, 2.0),), (row("A10G", 0.99, 1.0, width=1.01),)])
def test_stays_where_nothing_saves_enough(others: tuple[Placement, ...]) -> None:
    answer = said(*others)
    assert (answer.action, answer.text) == ("stay", "Stay on aws with-T4 (T4)")
    assert answer.why == "nothing else is more than 5 % cheaper"


def test_measures_where_it_may_cost_more_or_less() -> None:
    answer = said(row("A10G", 0.95, 1.0, width=1.5), test_s=1.0)
    assert answer.action == "measure" and answer.text == "Cannot tell yet: run 5 epochs on aws with-A10G (A10G) first"
    assert answer.why == "there the job may cost 42 % more or 37 % less"


def test_no_test_run_is_advised_that_costs_more_than_it_saves() -> None:
    answer = said(row("A10G", 0.9, 1.0, width=1.5))
    assert (answer.action, answer.text) == ("measure", "Try aws with-A10G (A10G): probably cheaper")
    assert answer.why == "there the job may cost 35 % more or 40 % less; a test run would cost more than it saves"
    answer = said(row("A10G", 0.97, 1.0, width=1.5))
    assert (answer.action, answer.text) == ("stay", "Stay on aws with-T4 (T4)")
    assert answer.why.startswith("aws with-A10G (A10G) is no clear gain: there the job may cost 46 % more")


def test_what_may_not_fit_is_tried_first() -> None:
    answer = said(row("A10G", 0.5, 1.0, fits=None))
    assert (answer.action, answer.text) == ("measure", "Cannot tell yet: try aws with-A10G (A10G) first")
    assert "if the job fits into its memory, which is unknown" in answer.why


def test_what_stays_is_no_saving_and_is_not_uncertain() -> None:
    """Half of the time is a start-up: half the time in epochs saves a quarter."""
    half = Estimate(25.0, 25 / 1.2, 25 * 1.2)
    job = WholeJob(half, 0.0, 0.0, 0.0, 50.0)
    best = replace(row("A10G", 0.5, 1.0), job=job, seconds=job.seconds)
    assert said(best).text == "Move to aws with-A10G (A10G): 20 to 29 % cheaper"


def test_what_misses_a_limit_moves_to_what_keeps_it_with_some_certainty() -> None:
    half = replace(row("A10G", 0.5, 4.0), deadline_chance=0.55)
    likely = replace(row("L40S", 0.3, 8.0), deadline_chance=0.96)
    limits = JobLimits(deadline_s=60.0)
    answer = verdict(decide([half, likely], "cost"), NOW, "cost", "epoch", limits, [half, likely])
    assert answer == Verdict(
        "move",
        "Move to aws with-L40S (L40S): aws with-T4 (T4) would miss the deadline",
        "the chance of finishing in time there is 96 %; on aws with-A10G (A10G) it is 55 %",
    )
    alone = verdict(decide([half], "cost"), NOW, "cost", "epoch", limits, [half])
    assert (alone.action, alone.text) == ("measure", "Cannot tell yet: measure aws with-A10G (A10G) first")
    assert "would miss the deadline, and there the chance of finishing in time is 55 %" in alone.why
    assert verdict(decide([half], "cost"), NOW, "cost", "epoch", JobLimits(deadline_s=200.0)).action == "stay"


def test_a_job_that_does_not_fit_where_it_runs_does_not_stay() -> None:
    larger = row("A100", 0.9, 3.0)
    answer = verdict(decide([larger], "cost"), replace(NOW, fits=False), "cost", "epoch", JobLimits(), [larger])
    assert answer.text == "Move to aws with-A100 (A100): aws with-T4 (T4) has too little memory"


def test_a_ratio_alone_moves_nobody() -> None:
    ratios = [replace(one, seconds=None) for one in (NOW, row("A10G", 0.5, 1.0))]
    answer = verdict(decide([ratios[1], ratios[0]], "cost"), ratios[0], "cost", "epoch")
    assert (answer.action, answer.text) == ("measure", "Cannot tell yet: record until epochs show")
    assert answer.why == "by the ratio alone, there the job would cost 40 to 58 % less"


def test_more_gpus_of_the_same_instance() -> None:
    two = replace(NOW, instance=replace(NOW.instance, count=2), usd_per_hour=1.0)
    both = replace(two, prediction=replace(row("T4", 0.55, 1.0, width=1.1, route="scaled").prediction, gpus=2))
    both = replace(both, seconds=Estimate(55.0, 50.0, 60.5))
    answer = verdict(decide([both], "cost"), two, "cost", "epoch")
    assert answer.text == "Use all GPUs of aws with-T4 (2 x T4): 39 to 50 % cheaper"


def test_without_a_price_or_an_instance_there_is_nothing_to_compare() -> None:
    assert said(row("A10G", 0.5, 1.0), now=None) == Verdict(
        "choose", "aws with-A10G (A10G) is the cheapest", "the current instance has no price to compare with"
    )
    assert verdict(None, NOW, "cost", "epoch").action == "none"
