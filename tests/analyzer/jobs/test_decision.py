"""When the first place is sure, how much following it can lose, and which run would decide."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from epochcast.analyzer.jobs.decide import Trial, decide, trial_run
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import Instance
from epochcast.regressor import Prediction, Profile
from epochcast.regressor.prediction import Estimate

WIDTH = 1.3


def _row(gpu: str, ratio: float, usd_per_hour: float = 3600.0, width: float = WIDTH) -> Placement:
    instance = Instance("aws", f"with-{gpu}", gpu, 1, "here", usd_per_hour, "a page", date(2026, 2, 9))
    seconds = Estimate(100 * ratio, 100 * ratio / width, 100 * ratio * width)
    prediction = Prediction(
        gpu, ratio, seconds.value, seconds.low, seconds.high, "test", ratio / width, ratio * width, "speeds", 1.0, ()
    )
    return Placement(instance, "on-demand", usd_per_hour, prediction, seconds, None, False)


def _run(row: Placement) -> Trial:
    return Trial(row, 5, 1.0)


def _long_run(seconds: float) -> Callable[[Placement], Trial]:
    return lambda row: Trial(row, 5, seconds)


def test_far_apart_is_sure() -> None:
    decision = decide([_row("A", 1.0), _row("B", 3.0)], "cost")
    assert decision and decision.sure and decision.chance > 0.99
    assert decision.experiment is None
    assert decision.regret_share < 1e-3


def test_the_expected_regret_is_that_of_two_lognormals() -> None:
    first, second = _row("A", 1.0), _row("B", 1.1)
    decision = decide([first, second], "cost")
    assert decision and not decision.sure
    deviation = math.log(WIDTH) / 1.6449
    generator = np.random.default_rng(7)
    a, b = (100 * ratio * np.exp(deviation * generator.standard_normal(400_000)) for ratio in (1.0, 1.1))
    assert decision.regret == pytest.approx(np.mean(a - np.minimum(a, b)), rel=0.06)
    assert decision.rivals[0].chance == pytest.approx(np.mean(b < a), abs=0.02)
    assert decision.chance == pytest.approx(1 - decision.rivals[0].chance)


def test_one_run_on_the_rival_decides_where_the_first_was_measured() -> None:
    rows = [_row("A", 1.0, width=1.0), _row("B", 1.05)]
    decision = decide(rows, "cost", _run)
    assert decision and decision.experiment
    assert decision.experiment.run.placement.instance.gpu == "B"
    assert decision.experiment.saves == pytest.approx(decision.regret)
    assert decision.experiment.worth


def test_where_no_run_decides_it_is_what_saves_most_for_its_price() -> None:
    rows = [_row("A", 1.0), _row("B", 1.02)]
    for cheap, dear in (("A", "B"), ("B", "A")):
        seconds = {cheap: 1.0, dear: 3.0}
        decision = decide(rows, "cost", lambda row, seconds=seconds: Trial(row, 5, seconds[row.instance.gpu]))  # type: ignore[misc]
        assert decision and decision.experiment and decision.regret
        assert decision.experiment.run.placement.instance.gpu == cheap
        assert 0.2 * decision.regret < decision.experiment.saves < 0.9 * decision.regret


def test_an_experiment_that_costs_more_than_it_saves_is_not_worth_it() -> None:
    rows = [_row("A", 1.0, width=1.0), _row("B", 1.05)]
    decision = decide(rows, "cost", _long_run(90.0))
    assert decision and decision.experiment and not decision.experiment.worth
    assert decision.experiment.run.usd == pytest.approx(90.0)


def test_only_the_best_instance_of_a_gpu_stands_against_another_gpu() -> None:
    rows = [_row("A", 1.0), replace(_row("A", 1.0), usd_per_hour=3700.0), _row("B", 1.05)]
    decision = decide(rows, "cost")
    assert decision and [rival.placement.instance.gpu for rival in decision.rivals] == ["B"]


def test_ratios_alone_rank_rivals_but_plan_no_experiment() -> None:
    rows = [replace(_row("A", 1.0), seconds=None), replace(_row("B", 1.05), seconds=None)]
    decision = decide(rows, "cost")
    assert decision and decision.rivals and decision.regret is None and 0 < decision.regret_share < 1


def test_a_trial_run_is_five_epochs_or_a_minute_and_never_more_than_the_job() -> None:
    profile = Profile("T4", 30.0, "epoch", 5, {}, "none", True, first_epoch_s=60.0)
    prediction = Prediction("A10G", 0.5, 15.0, 14.0, 16.0, "test", 0.45, 0.55, "speeds", 1.0, ())
    row = replace(_row("A10G", 0.5, usd_per_hour=3.6), prediction=prediction)
    run = trial_run(profile, row, epochs=90, startup_s=120.0)
    assert (run.epochs, run.seconds) == (5, 120 + 30 + 4 * 15)
    assert run.usd == pytest.approx(0.21)
    assert trial_run(profile, row, epochs=2, startup_s=0.0).epochs == 2
    quick = replace(row, prediction=replace(prediction, seconds=0.5))
    assert trial_run(profile, quick, epochs=900, startup_s=0.0).epochs == 120
