"""What a stream is made of: pyramid of means, activity, boundaries, follower, resampler."""

import numpy as np
import pytest

from epochcast.detector.stream.course import KEPT, Boundaries
from epochcast.detector.stream.follower import Follower
from epochcast.detector.stream.pyramid import BINS, FACTOR, Pyramid
from epochcast.detector.stream.samples import Resampler
from epochcast.detector.stream.work import StreamActivity

from .. import naive


def test_pyramid_against_plain_pooling() -> None:
    rng = np.random.default_rng(0)
    samples = rng.random((2, FACTOR * (BINS + 700))).astype(np.float32)
    pyramid = Pyramid(2)
    for first in range(0, samples.shape[1], FACTOR):
        pyramid.append(samples[:, first : first + FACTOR].astype(np.float64))
    for level in (0, 1, 2):
        width = FACTOR**level
        parts = samples[:, : samples.shape[1] // width * width].reshape(2, -1, width)
        for since in (0, 4097, samples.shape[1] - 3 * width):
            first, bins = pyramid.window(level, since)
            assert first >= since
            assert first - max(since, pyramid.first(level)) < width
            np.testing.assert_allclose(bins[0], parts[:, first // width :].mean(axis=2), rtol=1e-5)
            if level:
                np.testing.assert_array_equal(bins[1], parts[:, first // width :].min(axis=2))
                np.testing.assert_array_equal(bins[2], parts[:, first // width :].max(axis=2))


def test_work_goes_on_until_there_is_rest_and_its_length_says_what_comes_after_it() -> None:
    pyramid = Pyramid(1)
    work = StreamActivity(("sm_active",), pyramid)

    def changes(level: float, samples: int) -> list[str]:
        told = []
        for _ in range(samples // FACTOR):
            pyramid.append(np.full((1, FACTOR), level))
            told.append(work.watch(0.0))
        return told

    changes(0.9, 2000)
    work.settle()
    assert set(changes(0.9, 400)) == {"no change"}
    # Looked at every 24 samples, so that the second rest is just twice as long as the first: still nothing new to the job.
    for rest, change in ((72, "rested"), (168, "rested"), (216, "idle"), (1608, "another")):
        assert set(changes(0.0, rest)) == {"no change"}
        assert [one for one in changes(0.9, 384) if one != "no change"] == [change]


def test_a_boundary_is_the_nearest_within_the_tolerance_and_searches_take_the_place_of_those_before() -> None:
    known = Boundaries()
    assert known.near(10.0, 1.0) is None
    for position in (10.0, 20.0, 30.0):
        known.append(position, 0.5)
    assert known.near(19.5, 1.0) == 20.0
    assert known.near(18.5, 1.0) is None
    known.merge(np.array([21.0, 31.0]), np.array([0.9, 0.8]), 10.0)
    assert (known.positions.tolist(), known.matches.tolist()) == ([10.0, 21.0, 31.0], [0.5, 0.9, 0.8])
    known.merge(np.arange(41.0, 41.0 + KEPT), np.ones(KEPT), 1.0)
    assert (known.positions[0], known.positions.size) == (41.0, KEPT)


def test_matches_are_the_normalised_correlation_of_all_metrics_together() -> None:
    channels = np.random.default_rng(2).normal(1.0, 1.0, (2, 90))
    follower = object.__new__(Follower)
    follower._template, follower._floor = channels[:, 40:60] - channels[:, 40:60].mean(axis=1, keepdims=True), 0.0
    matches = follower._match(channels)
    np.testing.assert_allclose(matches, naive.correlate(channels.tolist(), channels[:, 40:60].tolist()))
    assert matches[40] == pytest.approx(1)


def test_resampling_in_portions_takes_the_nearest_row_or_interpolates() -> None:
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.uniform(0.05, 0.3, 400))
    values, counted = rng.random(400), np.cumsum(rng.random(400))
    resampler = Resampler(["a", "energy"], 0.1)
    parts = [resampler.take(time[i : i + 7], np.array([values[i : i + 7], counted[i : i + 7]])) for i in range(0, 400, 7)]
    even, counts = (np.concatenate(rows, axis=1) for rows in zip(*parts, strict=True))
    wanted = time[0] + 0.1 * np.arange(even.shape[1])
    nearest = np.abs(wanted[:, None] - time).argmin(axis=1)
    near = np.abs(time[nearest] - wanted) <= 0.05
    assert 0 < near.mean() < 1
    rate = np.append(np.nan, np.diff(counted) / np.diff(time))
    for row, column in ((even[0], values), (even[1, 10:], rate)):
        skip = even.shape[1] - row.size
        expected = np.where(near, column[nearest], np.interp(wanted, time[1:], column[1:]))[skip:]
        np.testing.assert_allclose(row[10:], expected[10:], atol=1e-9)
    np.testing.assert_array_equal(counts[-1], nearest + 1)


def test_a_counter_read_once_a_second_has_its_rate_held_across_portions() -> None:
    time = 0.1 * np.arange(60)
    joules = np.where(np.arange(60) % 10 == 0, 300 * time, np.nan)
    resampler = Resampler(["energy"], 0.1)
    even = np.concatenate([resampler.take(time[i : i + 7], joules[None, i : i + 7])[0] for i in range(0, 60, 7)], axis=1)
    assert np.isnan(even[0, :9]).all()
    assert np.allclose(even[0, 11:], 300)
