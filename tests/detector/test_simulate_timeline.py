"""Timelines: exact shares of ticks against a slow count, marks that move with what is before them, slower clocks."""

from __future__ import annotations

import numpy as np
import pytest

from epochcast.detector.simulator.timeline import TICK_S, Phase, SimulatedTimeline, join, pause
from epochcast.detector.simulator.training import SimulatedTraining, train


def naive_shares(timeline: SimulatedTimeline, ticks: int, parts: int = 1000) -> np.ndarray:
    """The phase at the middle of every ten-thousandth of a second, counted."""
    shares = np.zeros((ticks, len(Phase)))
    ends = np.cumsum(timeline.seconds)
    for tick in range(ticks):
        for part in range(parts):
            at = TICK_S * (tick + (part + 0.5) / parts)
            segment = int(np.searchsorted(ends, at, side="right"))
            phase = timeline.phases[segment] if segment < len(ends) else Phase.PARKED
            shares[tick, phase] += 1 / parts
    return shares


@pytest.mark.parametrize("seed", [0, 1])
def test_shares_are_those_of_a_slow_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    timeline = SimulatedTimeline.of(rng.integers(0, len(Phase), 40), rng.exponential(0.05, 40))
    ticks = int(timeline.length_s / TICK_S) + 3
    shares = timeline.shares(ticks)
    np.testing.assert_allclose(shares, naive_shares(timeline, ticks), atol=0.04)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_a_timeline_is_parked_after_its_end() -> None:
    shares = pause(Phase.SERVE, 0.25).shares(4)
    np.testing.assert_allclose(shares[:, Phase.SERVE], [1, 1, 0.5, 0])
    np.testing.assert_allclose(shares[:, Phase.PARKED], [0, 0, 0.5, 1])


def test_marks_follow_what_is_put_before() -> None:
    plan = SimulatedTraining(epochs=3, steps=5, step_s=0.2, validation_s=0.5, gap_s=0.3, jitter=0.0)
    job = train(plan, np.random.default_rng(0))
    starts, ends = job.marks()
    assert starts[0] == 0 and ends[-1] < job.length_s
    np.testing.assert_allclose(ends - starts, 1.5, atol=0.15)
    later, _ = join(pause(Phase.PARKED, 7.0), job).marks()
    np.testing.assert_allclose(later, starts + 7)


def test_a_slower_clock_stretches_work_but_not_waiting() -> None:
    timeline = SimulatedTimeline.of([Phase.WAIT, Phase.FORWARD, Phase.WAIT, Phase.FORWARD], [1.0, 1.0, 1.0, 1.0])
    slow = timeline.slowed(0, 2, 0.5)
    np.testing.assert_allclose(slow.seconds, [1, 2, 1, 1])
    np.testing.assert_allclose(slow.clocks(60), [0.5] * 30 + [1] * 30)


def test_evaluations_divide_an_epoch_evenly() -> None:
    plan = SimulatedTraining(epochs=2, steps=30, step_s=0.1, validation_s=2.0, evaluations=2, evaluation_s=1.0, jitter=0.0)
    job = train(plan, np.random.default_rng(0))
    validating = np.isin(job.phases, [Phase.VALIDATE])
    shares = job.shares(int(job.length_s / TICK_S))[:, Phase.VALIDATE] > 0.3
    assert validating.any()
    assert int((np.diff(shares.astype(int)) == 1).sum()) == 2 * 3


def test_a_validation_after_every_other_epoch_belongs_to_that_epoch() -> None:
    plan = SimulatedTraining(epochs=4, steps=10, step_s=0.1, validation_s=2.0, validation_every=2, gap_s=0.3, jitter=0.0)
    starts, ends = train(plan, np.random.default_rng(0)).marks()
    np.testing.assert_allclose(ends - starts, [1, 3, 1, 3], rtol=0.1)


def test_a_busy_host_makes_steps_wait_longer() -> None:
    plan = SimulatedTraining(epochs=2, steps=50, step_s=0.1)
    starts, ends = train(plan, np.random.default_rng(0), slowdown=np.array([0.0, 1.0])).marks()
    first, second = ends - starts
    assert second == pytest.approx(2 * first, rel=0.1)


def test_a_killed_job_keeps_only_its_finished_epochs() -> None:
    job = train(SimulatedTraining(epochs=5, steps=20, step_s=0.1, gap_s=0.3), np.random.default_rng(0))
    starts, ends = job.marks()
    killed = job.until_epoch(2, lost=0.5)
    np.testing.assert_allclose(killed.marks(), (starts[:2], ends[:2]))
    assert killed.length_s == pytest.approx((starts[2] + ends[2]) / 2, abs=0.1)


def test_sorted_data_makes_steps_longer_towards_the_end_of_each_epoch() -> None:
    plan = SimulatedTraining(epochs=2, steps=100, step_s=0.1, growth=1.0, jitter=0.0)
    job = train(plan, np.random.default_rng(0))
    backward = job.seconds[job.phases == Phase.BACKWARD]
    np.testing.assert_allclose(backward[:100], backward[100:])
    assert backward[99] / backward[0] == pytest.approx(np.exp(0.99))
    assert job.length_s == pytest.approx(20, rel=0.1)


def test_few_workers_starve_the_device_now_and_then() -> None:
    plan = SimulatedTraining(epochs=1, steps=40, step_s=0.1, step=(0.0, 0.1, 0.3, 0.5, 0.1), workers=4, hiccup=1.0, jitter=0.0)
    waits = train(plan, np.random.default_rng(0)).seconds[:200:5]
    assert np.count_nonzero(waits) == 10 and np.all(waits[3::4] > 0)
