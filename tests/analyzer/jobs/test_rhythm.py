"""GPUs of one job are recognised by when they work and wait; what only resembles it is not."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from epochcast.analyzer.jobs.grouping import grouped
from epochcast.analyzer.jobs.rhythm import Rhythm, RhythmCandidates, in_rhythm, rhythm_of

from .made_reports import report

Array = NDArray[np.float64]

BEGAN = 1_750_000_000.0
SECONDS = 300.0


def steps_at(rng: np.random.Generator, period_s: float, jitter: float = 0.02) -> Array:
    """Beginnings of a job's steps."""
    return BEGAN + np.cumsum(period_s * rng.normal(1, jitter, int(1.1 * SECONDS / period_s)))


def activity(begins: Array, works_s: float, rng: np.random.Generator, *, late: float = 0.0, noise: float = 0.05) -> Rhythm:
    """Of a GPU that works for ``works_s`` from each of these moments, read ten times a second on a clock of its own."""
    time = BEGAN + late + 0.1 * np.arange(round(10 * SECONDS))
    since = time - begins[np.maximum(np.searchsorted(begins, time, side="right") - 1, 0)]
    level = np.where((since >= 0) & (since < works_s), 0.8, 0.1) + rng.normal(0, noise, time.size)
    rhythm = rhythm_of("sm_active", time, level, 0.100003)
    assert rhythm is not None
    return rhythm


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_gpus_of_one_job_share_their_rhythm(noise: float) -> None:
    rng = np.random.default_rng(1)
    steps = steps_at(rng, 1.3)
    first, second = (activity(steps, 0.8, rng, late=late, noise=noise) for late in (0.0, 0.06))
    assert in_rhythm(first, second) and in_rhythm(second, first)


@pytest.mark.parametrize("period_s", [1.3, 1.305, 2.6])
def test_another_job_has_another_though_it_began_in_the_same_moment(period_s: float) -> None:
    rng = np.random.default_rng(2)
    first = activity(steps_at(rng, 1.3), 0.8, rng)
    assert not any(in_rhythm(first, activity(steps_at(rng, period_s), 0.8, rng)) for _ in range(20))


def test_steps_in_noise_are_a_rhythm_if_their_distance_never_changes() -> None:
    rng = np.random.default_rng(13)
    steps = steps_at(rng, 1.3)
    first, second = (activity(steps, 0.8, rng, noise=0.32) for _ in range(2))
    assert in_rhythm(first, second)
    assert not any(in_rhythm(first, activity(steps_at(rng, 1.3), 0.8, rng, noise=0.32)) for _ in range(40))


def test_steps_that_cannot_be_seen_leave_the_ends_of_epochs() -> None:
    rng = np.random.default_rng(3)
    ends = BEGAN + np.arange(8.0, SECONDS, 40.0)
    others = ends + np.repeat([0.0, 0.7], [4, 4])  # in step for a while only
    first, second, third = (activity(begins, 37.0, rng, noise=0.05) for begins in (ends, ends, others))
    assert in_rhythm(first, second)
    assert not in_rhythm(first, third)


def test_noise_and_one_event_are_no_rhythm() -> None:
    rng = np.random.default_rng(4)
    once = np.array([BEGAN, BEGAN + 150.0])
    assert not in_rhythm(*(activity(once, 140.0, rng, noise=0.1) for _ in range(2)))


def test_what_cannot_be_compared_is_not() -> None:
    rng = np.random.default_rng(5)
    rhythm = activity(steps_at(rng, 1.3), 0.8, rng)
    assert not in_rhythm(rhythm, replace(rhythm, metric="dram_active"))
    assert not in_rhythm(rhythm, replace(rhythm, step_s=0.2))
    assert not in_rhythm(rhythm, replace(rhythm, first=rhythm.first + len(rhythm.levels)))
    time = BEGAN + 0.1 * np.arange(400)
    assert rhythm_of("sm_active", time, rng.random(400), 0.1) is None, "40 s"
    assert rhythm_of("sm_active", time, np.full(400, np.nan), 0.1) is None
    assert rhythm_of("sm_active", BEGAN + 0.1 * np.arange(3000), np.full(3000, 0.5), 0.1) is None


def test_it_is_the_same_after_a_file() -> None:
    rng = np.random.default_rng(6)
    rhythm = activity(steps_at(rng, 1.3), 0.8, rng)
    again = Rhythm.from_json(json.loads(json.dumps(rhythm.to_json())))
    assert np.array_equal(again.levels, rhythm.levels)
    assert replace(again, levels=None) == replace(rhythm, levels=None)  # Python 3.13 compares arrays that are the same


def test_no_partner_is_left_out() -> None:
    rng = np.random.default_rng(7)
    jobs = [steps_at(rng, float(period)) for period in rng.uniform(0.6, 4, 12)]
    rhythms = [activity(jobs[number % 12], 0.4, rng, noise=0.1) for number in range(36)]
    candidates = RhythmCandidates()
    for number, rhythm in enumerate(rhythms):
        near = candidates.near(rhythm)
        assert {other for other in range(number) if in_rhythm(rhythms[other], rhythm)} == set(range(number % 12, number, 12))
        assert near >= set(range(number % 12, number, 12))
        assert len(near) < number / 2 or number < 12
        candidates.add(number, rhythm)


def test_gpus_with_another_multiple_of_the_step_are_one_job() -> None:
    rng = np.random.default_rng(8)
    steps = steps_at(rng, 0.85)
    found = (0.854, 2.561, 0.853, 1.705)
    reports = [replace(report(f"GPU-{n}", verdict="steps", period=period), epochs=()) for n, period in enumerate(found)]
    rhythms = {(each.device.uuid, each.job_since or 0.0): activity(steps, 0.5, rng) for each in reports}
    [(group, own)] = grouped(reports, rhythms=rhythms)
    assert (group.grouped_by, len(own)) == ("phase", 4)
    assert "work and wait at the same moments" in group.notes[0]
    assert len(grouped(reports)) == 4
    far = [replace(each, job_since=(each.job_since or 0.0) + 600.0 * n) for n, each in enumerate(reports)]
    moved = {(each.device.uuid, each.job_since or 0.0): rhythm for each, rhythm in zip(far, rhythms.values(), strict=True)}
    assert len(grouped(far, rhythms=moved)) == 4, "they began at other times"


def test_epochs_at_other_moments_outweigh_a_rhythm() -> None:
    """Two runs of one script may have steps at the same moments for a while."""
    rng = np.random.default_rng(9)
    steps = steps_at(rng, 0.85)
    reports = [report("GPU-a", epochs=8), report("GPU-b", epochs=8, shift=4.0)]
    rhythms = {(each.device.uuid, each.job_since or 0.0): activity(steps, 0.5, rng) for each in reports}
    assert len(grouped(reports, rhythms=rhythms)) == 2
    few = [replace(each, epochs=each.epochs[:3]) for each in reports]
    assert len(grouped(few, rhythms=rhythms)) == 1


def test_a_rhythm_decides_where_the_ends_of_epochs_are_only_nearly_the_same() -> None:
    """Short epochs that scatter by half a second between two GPUs: by themselves they may be two jobs."""
    rng = np.random.default_rng(10)
    steps = steps_at(rng, 0.85)
    first, second = report("GPU-a", epochs=20, period=9.5), report("GPU-b", epochs=20, period=9.5)
    moved = [replace(each, end=each.end + 0.5 + 0.1 * rng.standard_normal()) for each in second.epochs]
    reports = [first, replace(second, epochs=tuple(moved))]
    rhythms = {(each.device.uuid, each.job_since or 0.0): activity(steps, 0.5, rng) for each in reports}
    assert len(grouped(reports, rhythms=rhythms)) == 1
    assert len(grouped(reports)) == 2
