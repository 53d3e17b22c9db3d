"""The simulation, its policies and its slowdowns, by hand, and many runs summed up; tests/frozen has measured trainings."""

from collections.abc import Sequence

import pandas as pd
import pytest
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.simulation import (
    FIGURES,
    PackedGpu,
    Policy,
    fig7,
    none,
    nvml_util,
    occu,
    orderings,
    simulate,
    slot,
    summarise,
    utilisation,
)
from epochcast.analyzer.errors import InputError

MEMORY = 8e9


def _twice(jobs: Sequence[PackedJob]) -> Sequence[float]:
    return [float(len(jobs))] * len(jobs)


def test_a_pair_by_hand() -> None:
    """10 s and 20 s together at half speed: after 20 s the first is done and the second half done; it takes 10 s more."""
    figures, runs = simulate([job("a", duration=10.0), job("b", duration=20.0)], 1, MEMORY, occu, _twice)
    assert [(one.start, one.finish) for one in runs] == [(0, 20), (0, 30)]
    shares = {"nvml_utilisation": pytest.approx(0.5), "occupancy": pytest.approx(0.4)}
    means = {"jct": 25, "jct_slowdown": 1.75, "run_slowdown": 1.75, "failures": 0}
    assert figures == {"makespan": 30, **shares, **means}


def test_a_job_without_the_memory_it_needs_is_submitted_again() -> None:
    """Declared with 1 GB, it needs 6 next to 4 of 8: it fails, waits behind all others, and runs when there is room."""
    jobs = [
        job("large", memory=4e9, duration=10.0),
        job("liar", memory=6e9, predicted_memory=1e9, duration=5.0),
        job("small", memory=1e9, duration=3.0, occupancy=0.1),
        job("honest", memory=6e9, duration=2.0),
    ]
    _, (large, liar, small, honest) = simulate(jobs, 1, MEMORY, occu, none)
    assert (large.failures, liar.failures, small.failures) == (0, 1, 0)
    assert (small.start, honest.start, liar.start, liar.finish) == (0, 10, 12, 17)
    assert liar.job is jobs[1]


def test_a_job_larger_than_a_gpu_is_refused() -> None:
    with pytest.raises(InputError, match=r"'huge' needs 9e\+09 bytes and a GPU has 8e\+09"):
        simulate([job("huge", memory=9e9)], 1, MEMORY, slot, none)


@pytest.mark.parametrize(
    ("occupancies", "slowdown"),
    [((0.0, 0.0), 1.10), ((0.2, 0.3), 1.15), ((0.5, 0.5), 1.20), ((0.6, 0.65), 1.40), ((0.7, 0.8), 1.60), ((0.9, 0.9), 1.84)],
)
def test_fig7_by_hand(occupancies: tuple[float, float], slowdown: float) -> None:
    assert fig7([job(occupancy=each) for each in occupancies]) == pytest.approx([slowdown, slowdown])


def test_taking_turns_by_hand() -> None:
    jobs = [job(nvml_utilisation=each) for each in (0.5, 0.4)]
    assert utilisation(jobs) == [1.0, 1.0]
    jobs.append(job(nvml_utilisation=0.6))
    assert utilisation(jobs) == pytest.approx([1.5] * 3)


GB = 1e9


def gpus(*filled: Sequence[PackedJob], memory: float = 10 * GB) -> list[PackedGpu]:
    return [PackedGpu(memory, list(jobs)) for jobs in filled]


HALF, THIRD, FULL = job("half", occupancy=0.5), job("third", occupancy=0.3), job("full", occupancy=0.95)


@pytest.mark.parametrize(
    ("policy", "queue", "state", "placement"),
    [
        (slot, [HALF], gpus([THIRD], []), (0, 1)),
        (slot, [HALF], gpus([THIRD], [THIRD]), None),
        (slot, [], gpus([]), None),
        (occu, [THIRD], gpus([THIRD], [HALF], []), (0, 1)),  # the fullest that takes it
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
def test_placements_by_hand(
    policy: Policy, queue: list[PackedJob], state: list[PackedGpu], placement: tuple[int, int] | None
) -> None:
    assert policy(queue, state) == placement


def rows_of(makespan: dict[str, list[float]], utilisation: dict[str, list[float]]) -> pd.DataFrame:
    """Rows of runs with these figures, the others 0."""
    return pd.DataFrame(
        [
            {"slowdown": "curve", "policy": policy, "run": run, **dict.fromkeys(FIGURES, 0.0)}
            | {"makespan": seconds, "nvml_utilisation": utilisation[policy][run]}
            for policy, runs in makespan.items()
            for run, seconds in enumerate(runs)
        ]
    )


def test_gains_are_those_of_table_vi() -> None:
    rows = rows_of(
        {"slot": [133.10], "nvml-util": [126.58], "occu": [106.87]}, {"slot": [46.58], "nvml-util": [46.48], "occu": [61.23]}
    )
    slot, nvml, occu = summarise(rows)
    assert 100 * occu["makespan_gain"] == pytest.approx(19.71, abs=0.005)
    assert 100 * occu["utilisation_gain"] == pytest.approx(31.45, abs=0.005)
    assert 100 * nvml["makespan_gain"] == pytest.approx(4.90, abs=0.005)
    assert 100 * nvml["utilisation_gain"] == pytest.approx(-0.21, abs=0.005)
    assert (slot["makespan_gain"], slot["won"], nvml["won"], occu["won"]) == (0, 0, 0, 1)
    order = orderings(rows)["curve"]
    assert order["makespan"] and order["utilisation"]
