"""The event-driven simulation against a clock that ticks, against list scheduling, and against sums done by hand."""

from collections.abc import Sequence

import pytest
from made_jobs import in_small_steps, job, random_jobs

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES, SLOWDOWNS, none, occu, slot
from epochcast.analyzer.backends.occupancy.packing.simulation import simulate
from epochcast.analyzer.errors import InputError

MEMORY = 8e9
STEP = 2e-3


def _twice(jobs: Sequence[PackedJob]) -> Sequence[float]:
    return [float(len(jobs))] * len(jobs)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("seed", "curve"), list(enumerate(SLOWDOWNS)))
def test_agrees_with_a_clock_that_ticks(seed: int, curve: str, policy: str) -> None:
    jobs, slowdown = random_jobs(seed), SLOWDOWNS[curve]
    fast = simulate(jobs, 2, MEMORY, POLICIES[policy], slowdown)
    slow = in_small_steps(jobs, 2, MEMORY, POLICIES[policy], slowdown, STEP)
    near = 40 * STEP  # every event is late by up to a step, and each makes later ones later
    for one in fast.finished:
        assert one.start == pytest.approx(slow.start[one.job.name], abs=near)
        assert one.finish == pytest.approx(slow.finish[one.job.name], abs=near)
    makespan = max(slow.finish.values())
    assert fast.makespan == pytest.approx(makespan, abs=near)
    assert fast.nvml_utilisation == pytest.approx(slow.nvml_seconds / makespan / 2, abs=0.01)
    assert fast.occupancy == pytest.approx(slow.occupancy_seconds / makespan / 2, abs=0.01)


def test_a_pair_by_hand() -> None:
    """10 s and 20 s together at half speed: after 20 s the first is done and the second half done; it takes 10 s more."""
    outcome = simulate([job("a", duration=10.0), job("b", duration=20.0)], 1, MEMORY, occu, _twice)
    assert [(one.start, one.finish) for one in outcome.finished] == [(0, 20), (0, 30)]
    assert [one.run_slowdown for one in outcome.finished] == [2.0, 1.5]
    assert outcome.makespan == 30
    assert outcome.nvml_utilisation == pytest.approx((20 * 0.5 + 10 * 0.5) / 30)
    assert outcome.occupancy == pytest.approx((20 * 0.4 + 10 * 0.4) / 30)


def test_a_job_without_the_memory_it_needs_is_submitted_again() -> None:
    """Declared with 1 GB, it needs 6 next to 4 of 8: it fails, waits behind all others, and runs when there is room."""
    jobs = [
        job("large", memory=4e9, duration=10.0),
        job("liar", memory=6e9, predicted_memory=1e9, duration=5.0),
        job("small", memory=1e9, duration=3.0, occupancy=0.1),
        job("honest", memory=6e9, duration=2.0),
    ]
    outcome = simulate(jobs, 1, MEMORY, occu, none)
    large, liar, small, honest = outcome.finished
    assert (large.failures, liar.failures, small.failures) == (0, 1, 0)
    assert (small.start, honest.start, liar.start, liar.finish) == (0, 10, 12, 17)
    assert liar.job is jobs[1]


@pytest.mark.parametrize(
    ("jobs", "gpus", "memory", "message"),
    [
        ([], 1, MEMORY, "nothing to simulate"),
        ([job()], 0, MEMORY, "nothing to simulate"),
        ([job()], 1, 0.0, "holds no job"),
        ([job("huge", memory=9e9)], 1, MEMORY, "'huge' needs 9e\\+09 bytes and a GPU has 8e\\+09"),
    ],
)
def test_what_cannot_run_is_refused(jobs: list[PackedJob], gpus: int, memory: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(jobs, gpus, memory, slot, none)
