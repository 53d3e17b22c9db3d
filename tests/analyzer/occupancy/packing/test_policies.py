"""Which job goes where, on GPUs filled by hand; packing by interference against trying everything."""

from collections.abc import Sequence

import numpy as np
import pytest
from made_jobs import job, random_jobs

from epochcast.analyzer.backends.occupancy.packing.gpu import Gpu
from epochcast.analyzer.backends.occupancy.packing.job import Job
from epochcast.analyzer.backends.occupancy.packing.policies import (
    POLICIES,
    Policy,
    by_gain,
    nvml_util,
    occu,
    occu_spread,
    random_pair,
    slot,
)
from epochcast.analyzer.backends.occupancy.packing.slowdown import fig7, none, utilisation

GB = 1e9


def gpus(*filled: Sequence[Job], memory: float = 10 * GB) -> list[Gpu]:
    return [Gpu(memory, list(jobs)) for jobs in filled]


HALF, THIRD, FULL = job("half", occupancy=0.5), job("third", occupancy=0.3), job("full", occupancy=0.95)


@pytest.mark.parametrize(
    ("policy", "queue", "state", "placement"),
    [
        (slot, [HALF], gpus([THIRD], []), (0, 1)),
        (slot, [HALF], gpus([THIRD], [THIRD]), None),
        (slot, [], gpus([]), None),
        (occu, [THIRD], gpus([THIRD], [HALF], []), (0, 1)),  # the fullest that takes it
        (occu_spread, [THIRD], gpus([THIRD], [HALF], []), (0, 2)),  # the emptiest
        (occu, [HALF], gpus([HALF], [THIRD]), (0, 0)),  # 100 % is not too much
        (occu, [HALF], gpus([THIRD, THIRD]), None),
        (occu, [FULL, THIRD], gpus([HALF]), (1, 0)),  # one that fits nowhere lets others pass
        (occu, [FULL], gpus([HALF], []), (0, 1)),
        (occu, [job(memory=9.5 * GB, occupancy=0.1)], gpus([HALF]), None),  # memory
        (occu, [job(memory=9.5 * GB, predicted_memory=GB, occupancy=0.1)], gpus([HALF]), (0, 0)),  # as it is told
        (occu, [THIRD], gpus([job(memory=9.5 * GB, predicted_memory=GB)]), None),  # of running jobs as it is
        (occu, [job(occupancy=0.9, predicted_occupancy=0.4)], gpus([HALF]), (0, 0)),
        (occu, [HALF], gpus([job(occupancy=0.2, predicted_occupancy=0.6)]), None),
        (nvml_util, [job(nvml_utilisation=0.4)], gpus([job(nvml_utilisation=0.7)], [job(nvml_utilisation=0.5)]), (0, 1)),
        (nvml_util, [job(nvml_utilisation=0.9, occupancy=0.1)], gpus([job(nvml_utilisation=0.9, occupancy=0.1)]), None),
        (occu, [job(predicted_memory=99 * GB)], gpus([]), (0, 0)),  # an empty GPU takes any job
    ],
)
def test_placements_by_hand(policy: Policy, queue: list[Job], state: list[Gpu], placement: tuple[int, int] | None) -> None:
    assert policy(queue, state) == placement


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("belief", [none, fig7, utilisation])
def test_by_gain_finds_the_greatest_of_all(belief: fig7, seed: int) -> None:
    jobs = random_jobs(seed, count=12)
    state = gpus(jobs[:1], jobs[1:3], jobs[3:5], memory=6 * GB)
    queue = jobs[5:]

    def rate(running: Sequence[Job]) -> float:
        return sum(1 / each for each in belief(running))

    gains = {
        (position, index): rate([*gpu.jobs, one]) - rate(gpu.jobs)
        for position, one in enumerate(queue)
        for index, gpu in enumerate(state)
        if sum(other.memory for other in gpu.jobs) + one.predicted_memory <= gpu.memory
    }
    best = max(gains.values())
    placement = by_gain(belief)(queue, state)
    if best <= 1e-9:
        assert placement is None
    else:
        assert placement is not None
        assert gains[placement] == pytest.approx(best)


def test_by_gain_lets_wait_what_costs_more_than_it_does() -> None:
    """Busy all the time, two jobs that take turns get no more done than one."""
    busy = job(nvml_utilisation=1.0)
    assert by_gain(utilisation)([busy], gpus([busy])) is None
    assert by_gain(utilisation)([busy], gpus([busy], [])) == (0, 1)
    assert by_gain(utilisation)([busy, job(nvml_utilisation=0.2)], gpus([job(nvml_utilisation=0.7)])) == (1, 0)


def test_only_the_oracle_sees_what_is_true() -> None:
    """The first is told to be light and is heavy; the second is as it is told."""
    queue = [job("liar", occupancy=0.9, predicted_occupancy=0.1), job("honest", occupancy=0.3)]
    assert POLICIES["interference"](fig7)(queue, gpus([HALF])) == (0, 0)
    assert POLICIES["oracle"](fig7)(queue, gpus([HALF])) == (1, 0)


def test_random_pairs_are_only_such_that_can_be() -> None:
    def no_liar(jobs: Sequence[Job]) -> Sequence[float]:
        return [float("inf") if len(jobs) > 1 and any(one.name == "liar" for one in jobs) else 1.0 for _ in jobs]

    policy = random_pair(no_liar, np.random.default_rng(0))
    queue = [job("liar"), job("a"), job("b"), job("large", memory=9.5 * GB)]
    state = gpus([HALF], [HALF])
    placements = {policy(queue, state) for _ in range(100)}
    assert placements == {(position, index) for position in (1, 2) for index in (0, 1)}
    assert policy(queue[:1], state) is None
    assert policy(queue, gpus([HALF], [])) == (0, 1)
