"""Curves of what sharing costs: by hand, and what holds for any jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.slowdown import FIG7_ANCHORS, SLOWDOWNS, fig7, utilisation


@pytest.mark.parametrize("curve", SLOWDOWNS)
def test_a_job_alone_is_not_slowed_down(curve: str) -> None:
    assert list(SLOWDOWNS[curve]([job(occupancy=1.0, nvml_utilisation=1.0)])) == [1.0]
    assert list(SLOWDOWNS[curve]([])) == []


@pytest.mark.parametrize(
    ("occupancies", "slowdown"),
    [((0.0, 0.0), 1.10), ((0.2, 0.3), 1.15), ((0.5, 0.5), 1.20), ((0.6, 0.65), 1.40), ((0.7, 0.8), 1.60), ((0.9, 0.9), 1.84)],
)
def test_fig7_by_hand(occupancies: tuple[float, float], slowdown: float) -> None:
    assert fig7([job(occupancy=each) for each in occupancies]) == pytest.approx([slowdown, slowdown])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0, 1))
def test_fig7_rises_and_fits_no_more_than_all_warps(occupancies: list[float], more: float) -> None:
    jobs = [job(occupancy=each) for each in occupancies]
    slowdown = fig7(jobs)[0]
    assert slowdown >= FIG7_ANCHORS[0][1]
    assert fig7([*jobs, job(occupancy=more)])[0] >= slowdown - 1e-12
    assert sum(occupancies) / slowdown <= 1 + 1e-9


def test_taking_turns_by_hand() -> None:
    jobs = [job(nvml_utilisation=each) for each in (0.5, 0.4)]
    assert utilisation(jobs) == [1.0, 1.0]
    jobs.append(job(nvml_utilisation=0.6))
    assert utilisation(jobs) == pytest.approx([1.5] * 3)
