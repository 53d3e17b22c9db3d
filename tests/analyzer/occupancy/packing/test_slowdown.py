"""Curves of what sharing costs: by hand, and what holds for any jobs."""

import pytest
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.policies import fig7, utilisation


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
