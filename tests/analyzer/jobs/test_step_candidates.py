"""Looking at a few GPUs finds the jobs that looking at all of them finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from epochcast.analyzer.jobs.clusters import Known
from epochcast.analyzer.jobs.grouping import group
from epochcast.analyzer.jobs.phase import MOST_APART, StepCandidates, in_step
from epochcast.analyzer.telemetry.gpu_report import Report

from .made_reports import BEGAN, report


class _All(StepCandidates):
    """Every GPU that was put in: slow, and obviously right."""

    def __init__(self) -> None:
        super().__init__()
        self._all: list[int] = []

    def add(self, number: int, report: Report) -> None:
        self._all.append(number)

    def near(self, report: Report) -> list[int]:
        return self._all


def _fleet(seed: int, jobs: int = 60) -> list[Report]:
    """Jobs of 1 to 6 GPUs; periods and beginnings lie close together, and some at the very limits of being in step."""
    rng = np.random.default_rng(seed)
    reports: list[Report] = []
    for job in range(jobs):
        period = float(rng.choice([12.0, 30.0, 30.5, 30.6, 31.2, 300.0]) * rng.choice([1.0, 1.0199, 1.0201]))
        since = BEGAN + float(rng.choice([0.0, 0.0, period * 0.999, -period, 3000.0, rng.uniform(0, 600)]))
        verdict = str(rng.choice(["epochs"] * 6 + ["steps", "none"]))
        for gpu in range(int(rng.integers(1, 7))):
            reports.append(
                report(
                    f"GPU-{job:03}-{gpu}",
                    profiled=False,
                    label=str(gpu),
                    period=period * float(rng.uniform(1, 1.004)),
                    since=since + float(rng.uniform(0, 2)),
                    shift=float(rng.choice([0.0, 0.1, 3.0])),
                    epochs=int(rng.integers(4, 12)),
                    verdict=verdict,
                )
            )
    return reports


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_those_of_comparing_every_pair(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet(seed)
    by_uuid = {one.device.uuid: one for one in fleet}
    found = group(by_uuid)
    assert max(len(one.gpus) for one in found) > 1, "a fleet without any job of several GPUs proves nothing"
    later = {uuid: replace(one, verdict="none", period_s=None, epochs=()) for uuid, one in list(by_uuid.items())[::3]}
    memory = [Known(one.id, one.grouped_by, one.title, BEGAN, _members(one.gpus, by_uuid)) for one in found]
    again = group({**by_uuid, **later}, memory)
    monkeypatch.setattr("epochcast.analyzer.jobs.clusters.StepCandidates", _All)
    assert found == group(by_uuid)
    assert again == group({**by_uuid, **later}, memory), "also with what was published before"


def test_nothing_in_step_is_left_out() -> None:
    fleet = _fleet(seed=7)
    candidates = StepCandidates()
    for number, one in enumerate(fleet):
        candidates.add(number, one)
    looked_at = 0
    for one in fleet:
        near = candidates.near(one)
        looked_at += len(near)
        assert {number for number, other in enumerate(fleet) if in_step(one, other)} <= set(near)
        assert near == sorted(set(near))
    assert looked_at < 0.5 * len(fleet) ** 2


@pytest.mark.parametrize("longer", [1.0, 1 + MOST_APART])
@pytest.mark.parametrize("epochs_later", [0.0, 0.9999, -0.9999])
def test_whatever_the_length_of_an_epoch_one_that_differs_as_much_as_it_may_is_looked_at(
    longer: float, epochs_later: float
) -> None:
    """By 2 % in its length, and by one epoch in its beginning: `phase.in_step` may say yes up to there."""
    for one, other in _pairs(longer, epochs_later * longer):
        for put_in, asked in ((one, other), (other, one)):
            candidates = StepCandidates()
            candidates.add(1, put_in)
            assert candidates.near(asked) == [1], f"{one.period_s} s from {one.job_since}, {other.period_s} s"


@pytest.mark.parametrize(("longer", "epochs_later"), [(1.05, 0.0), (1 / 1.05, 0.0), (1.0, 2.5), (1.0, -2.5)])
def test_what_is_far_from_being_in_step_is_not_looked_at(longer: float, epochs_later: float) -> None:
    """More than twice the 2 % or the one epoch by which lengths and beginnings may differ: of thousands few are left."""
    for one, other in _pairs(longer, epochs_later):
        candidates = StepCandidates()
        candidates.add(1, one)
        assert candidates.near(other) == [], f"{one.period_s} s from {one.job_since}, {other.period_s} s"


def _pairs(longer: float, epochs_later: float) -> Iterator[tuple[Report, Report]]:
    """GPUs with epochs of a second to a day, each with another whose epochs are longer and that began so many epochs later."""
    rng = np.random.default_rng(5)
    like = report(epochs=0, profiled=False)
    for period, since in zip(np.exp(rng.uniform(0, np.log(86_400), 4000)), BEGAN + rng.uniform(0, 86_400, 4000), strict=True):
        yield (
            replace(like, period_s=float(period), job_since=float(since)),
            replace(like, period_s=float(longer * period), job_since=float(since + epochs_later * period)),
        )


def _members(gpus: Sequence[str], reports: dict[str, Report]) -> dict[str, float]:
    return {uuid: reports[uuid].job_since or 0.0 for uuid in gpus}
