"""Streams of jobs and errors of prediction: same seed same stream, and the figures that were asked for."""

import numpy as np
import pytest
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape, job_stream, with_prediction_error
from epochcast.analyzer.errors import InputError

TABLE = [JobKind(f"net{n}/b16", 0.1 * n, 0.9, n * 1e9) for n in range(1, 6)]


def test_the_same_seed_draws_the_same_stream() -> None:
    first, again = (job_stream(TABLE, StreamShape(), np.random.default_rng(3)) for _ in range(2))
    assert first == again
    assert first != job_stream(TABLE, StreamShape(), np.random.default_rng(4))


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


@pytest.mark.parametrize("error", [0.1, 1.5])
def test_predictions_are_off_by_the_error_asked_for(error: float) -> None:
    jobs = [job(kind=str(number), occupancy=1e-4) for number in range(10_000)]
    wrong = with_prediction_error(jobs, error, np.random.default_rng(0))
    factors = np.array([one.predicted_occupancy / one.occupancy for one in wrong])
    assert np.abs(factors - 1).mean() == pytest.approx(error, rel=0.06)
    assert np.median(factors) == pytest.approx(1, rel=0.06)
    assert [one.occupancy for one in wrong] == [one.occupancy for one in jobs]


def test_one_kind_is_wrong_in_one_way_and_nothing_is_above_one() -> None:
    jobs = [job(str(number), kind=f"net{number % 3}", occupancy=0.9) for number in range(30)]
    wrong = with_prediction_error(jobs, 0.5, np.random.default_rng(1))
    assert len({(one.kind, one.predicted_occupancy) for one in wrong}) == 3
    assert max(one.predicted_occupancy for one in wrong) <= 1
    assert with_prediction_error(jobs, 0.0, np.random.default_rng(1)) == jobs


@pytest.mark.parametrize(
    "shape",
    [StreamShape(jobs=0), StreamShape(mean_duration=0.0), StreamShape(spread=-1.0), StreamShape(arrival_rate=0.0)],
)
def test_streams_that_cannot_be(shape: StreamShape) -> None:
    with pytest.raises(InputError):
        job_stream(TABLE, shape, np.random.default_rng(0))


@pytest.mark.parametrize("error", [-0.1, 6.0, float("nan")])
def test_errors_that_cannot_be(error: float) -> None:
    with pytest.raises(InputError, match="out of range"):
        with_prediction_error([job()], error, np.random.default_rng(0))
