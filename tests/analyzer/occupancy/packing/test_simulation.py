"""The event-driven simulation against a clock that ticks, against list scheduling, and against sums done by hand."""

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_jobs import in_small_steps, job, random_jobs

from epochcast.analyzer.backends.occupancy.packing.job import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES, occu, slot
from epochcast.analyzer.backends.occupancy.packing.simulation import Finished, Outcome, simulate
from epochcast.analyzer.backends.occupancy.packing.slowdown import SLOWDOWNS, Slowdown, fig7, none, utilisation
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


def test_a_job_that_joins_late_by_hand() -> None:
    """The first runs 4 s alone, then both at half speed: its 6 s take 12 (16 s), by when the second has 6 of its 10 done."""
    outcome = simulate([job("a"), job("b", arrival=4.0)], 1, MEMORY, occu, _twice)
    assert [(one.start, one.finish) for one in outcome.finished] == [(0, 16), (4, 20)]
    assert [one.jct for one in outcome.finished] == [16, 16]


def test_slots_queue_by_hand() -> None:
    outcome = simulate([job("a"), job("b"), job("c", arrival=12.0)], 1, MEMORY, slot, _twice)
    assert [one.start for one in outcome.finished] == [0, 10, 20]
    assert [one.jct_slowdown for one in outcome.finished] == [1, 2, 1.8]
    assert outcome.makespan == 30


def test_time_begins_with_the_first_arrival() -> None:
    outcome = simulate([job("a", arrival=100.0)], 2, MEMORY, slot, none)
    assert outcome.makespan == 10
    assert outcome.nvml_utilisation == pytest.approx(0.25)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), gpus=st.integers(1, 4))
def test_slots_are_list_scheduling(seed: int, gpus: int) -> None:
    jobs = random_jobs(seed)
    free = [0.0] * gpus
    finish = []
    for one in sorted(jobs, key=lambda one: one.arrival):
        finish.append(max(heapq.heappop(free), one.arrival) + one.duration)
        heapq.heappush(free, finish[-1])
    assert simulate(jobs, gpus, MEMORY, slot, fig7).makespan == pytest.approx(max(finish))


def _beside(one: Finished, outcome: Outcome) -> list[PackedJob]:
    """Jobs on the GPU when this one has started."""
    return [
        other.job
        for other in outcome.finished
        if other.gpu == one.gpu and other.start <= one.start + 1e-12 < other.finish - 1e-9
    ]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    gpus=st.integers(1, 3),
    policy=st.sampled_from(list(POLICIES)),
    curve=st.sampled_from(list(SLOWDOWNS)),
)
def test_nothing_is_lost_and_no_memory_overflows(seed: int, gpus: int, policy: str, curve: str) -> None:
    jobs, slowdown = random_jobs(seed), SLOWDOWNS[curve]
    outcome = simulate(jobs, gpus, MEMORY, POLICIES[policy], slowdown)
    assert [one.job for one in outcome.finished] == jobs
    for one in outcome.finished:
        assert one.start >= one.job.arrival - 1e-9
        assert one.run_slowdown >= 1 - 1e-9
        assert one.failures == 0
        beside = _beside(one, outcome)
        assert sum(other.memory for other in beside) <= MEMORY * (1 + 1e-12)
        shares = {
            "slot": lambda _: 1.0,
            "occu": lambda other: other.predicted_occupancy,
            "nvml-util": lambda other: other.nvml_utilisation,
        }
        if len(beside) > 1:
            assert sum(map(shares[policy], beside)) <= 1 + 1e-6
    if curve == "utilisation" or policy == "slot":  # kernels never overlap: their seconds are the same in any order
        busy = outcome.nvml_utilisation * outcome.makespan * gpus
        assert busy == pytest.approx(sum(one.nvml_utilisation * one.duration for one in jobs))
    if curve == "none":
        assert all(one.run_slowdown == pytest.approx(1) for one in outcome.finished)


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


def test_a_policy_may_not_place_what_cannot_run_together() -> None:
    def never(jobs: Sequence[PackedJob]) -> Sequence[float]:
        return [1.0 if len(jobs) == 1 else float("inf")] * len(jobs)

    with pytest.raises(ValueError, match="cannot run together"):
        simulate([job("a"), job("b")], 1, MEMORY, occu, never)


@pytest.mark.parametrize("curve", [none, utilisation])
def test_equal_jobs_that_end_at_once(curve: Slowdown) -> None:
    outcome = simulate([job(str(number)) for number in range(6)], 1, 100e9, occu, curve)
    assert [one.finish for one in outcome.finished] == pytest.approx([10, 10, 20, 20, 30, 30])
