"""Streams of jobs: same seed same stream, and the requested figures."""

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.packing.jobs import JobKind, StreamShape, job_stream

TABLE = [JobKind(f"net{n}/b16", 0.1 * n, 0.9, n * 1e9) for n in range(1, 6)]


def test_durations_have_the_mean_and_spread_asked_for() -> None:
    jobs = job_stream(TABLE, StreamShape(jobs=40_000, mean_duration=12.0, spread=0.8), np.random.default_rng(0))
    durations = np.array([one.duration for one in jobs])
    assert durations.mean() == pytest.approx(12, rel=0.03)
    assert np.log(durations).std() == pytest.approx(0.8, rel=0.03)
    assert {one.kind for one in jobs} == {one.key for one in TABLE}
    counts = np.unique([one.kind for one in jobs], return_counts=True)[1]
    assert counts == pytest.approx(8000, rel=0.05)
    for one in jobs[:20]:
        like = next(other for other in TABLE if other.key == one.kind)
        assert (one.occupancy, one.predicted_occupancy, one.memory) == (like.occupancy, like.occupancy, like.memory)


def test_all_arrive_at_once_or_at_random() -> None:
    assert {one.arrival for one in job_stream(TABLE, StreamShape(), np.random.default_rng(0))} == {0.0}
    jobs = job_stream(TABLE, StreamShape(jobs=20_000, arrival_rate=0.5), np.random.default_rng(0))
    gaps = np.diff([one.arrival for one in jobs])
    assert jobs[0].arrival == 0
    assert gaps.mean() == pytest.approx(2, rel=0.05)
    assert gaps.std() == pytest.approx(2, rel=0.05)  # exponential
