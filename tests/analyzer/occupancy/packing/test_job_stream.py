"""Streams of jobs: their durations, their kinds, and when they arrive."""

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.packing.jobs import MEAN_DURATION, SPREAD, draw_streams, job_kind

KINDS = [job_kind(f"net{n}/b16", 0.1 * n, 0.9, n * 1e9) for n in range(1, 6)]


def test_a_stream_draws_durations_kinds_and_arrivals() -> None:
    (jobs,) = draw_streams(KINDS, 1, 0, 40_000, arrival_rate=0.5)
    durations = np.array([one.duration for one in jobs])
    assert durations.mean() == pytest.approx(MEAN_DURATION, rel=0.04)
    assert np.log(durations).std() == pytest.approx(SPREAD, rel=0.03)
    assert np.unique([one.kind for one in jobs], return_counts=True)[1] == pytest.approx(8000, rel=0.05)
    like = {kind.name: kind for kind in KINDS}
    assert all(one.occupancy == one.predicted_occupancy == like[one.kind].occupancy for one in jobs[:20])
    gaps = np.diff([one.arrival for one in jobs])
    assert jobs[0].arrival == 0 and (gaps.mean(), gaps.std()) == pytest.approx((2, 2), rel=0.05)  # exponential
