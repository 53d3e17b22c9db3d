"""The tracker's fast parts against plain loops, and the one decision that is easy to get wrong: where an epoch begins."""

import numpy as np
import pytest

from epochcast.detector.methods.track import boundaries, periods, template

from .. import naive


@pytest.mark.parametrize(("n", "lags"), [(10, 9), (57, 40), (128, 20)])
def test_autocorrelation(n: int, lags: int) -> None:
    channels = np.random.default_rng(n).normal(size=(3, n)).cumsum(axis=1)
    found = periods.autocorrelation(channels, lags)
    assert np.allclose(found, [naive.autocorrelation(channel.tolist(), lags) for channel in channels])


def test_autocorrelation_of_a_constant_is_0() -> None:
    assert (periods.autocorrelation(np.full((1, 30), 7.0), 9) == 0).all()


@pytest.mark.parametrize("width", [3, 10, 31])
def test_correlation(width: int) -> None:
    # The windows' energy has a floor, so that a flat stretch matches nothing: noise stays above it.
    channels = np.random.default_rng(width).normal(size=(2, 90))
    pattern = channels[:, 40 : 40 + width]
    matching = template.Matching(channels)
    found = matching.correlate(pattern)
    wanted = np.array(naive.correlate(channels.tolist(), pattern.tolist()))
    energetic = matching.energy(width) > 0.051 * width * channels.var(axis=1).sum()
    assert energetic.mean() > 0.9
    assert np.allclose(found[energetic], wanted[energetic])
    assert found[40] == pytest.approx(1)


def test_a_flat_stretch_matches_nothing() -> None:
    channels = np.concatenate([np.random.default_rng(0).normal(size=50), np.full(50, 0.3)])[None]
    found = template.Matching(channels).correlate(channels[:, 10:30])
    assert np.abs(found[50:]).max() < 1e-6


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_the_median_of_windows_is_the_median(count: int) -> None:
    many = template.windows(np.random.default_rng(count).normal(size=(3, 60)), np.arange(count) * 3, 20)
    assert np.array_equal(template.median_window(many), np.median(many, axis=0))


@pytest.mark.parametrize("seed", range(8))
def test_best_chain_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = np.full(160, -0.2)
    peaks = np.sort(rng.choice(np.arange(0, 160, 4), 12, replace=False))
    similarity[peaks] = rng.uniform(0.1, 1.0, 12)
    chain = boundaries.best_chain(similarity, 20.0)
    kept = [int(i) for i in peaks if similarity[i] == similarity[max(0, i - 2) : i + 3].max()]
    value = naive.chain_value(chain.tolist(), similarity[chain].tolist(), 20.0)
    assert value == pytest.approx(naive.best_chain_value(kept, similarity[kept].tolist(), 20.0))


def test_a_missed_boundary_is_bridged() -> None:
    similarity = np.zeros(200)
    similarity[[20, 60, 100, 180]] = 0.9
    assert boundaries.best_chain(similarity, 40.0).tolist() == [20, 60, 100, 180]


@pytest.mark.parametrize("shift", [0, 7, 33, 55])
@pytest.mark.parametrize("sign", [1, -1])
def test_epoch_begins_after_the_longest_unlike_stretch(shift: int, sign: int) -> None:
    period = np.ones(60)
    period[40:52] = 0.0  # validation
    period[20:23] = 0.0  # a stall
    both = np.roll(np.stack([sign * period, -0.5 * sign * period]), shift, axis=1)
    assert template.boundary_phase(both) == (52 + shift) % 60


def test_pooling_keeps_short_gaps() -> None:
    values = np.ones((1, 12))
    values[0, 5] = 0.0
    mean, low, high = periods.pooled(values, 4)
    assert mean.tolist() == [1.0, 0.75, 1.0]
    assert low.tolist() == [1.0, 0.0, 1.0]
    assert high.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("period", [12.3, 40.0, 333.0])
def test_candidates_hold_the_period_of_a_plain_cycle(period: float) -> None:
    ticks = np.arange(int(12 * period))
    values = ((ticks % period) < 0.8 * period).astype(float)[None]
    values = (values - values.mean()) / values.std()
    found = periods.candidates(values)
    assert any(abs(other / period - 1) < 0.03 for other in found), found


def test_the_vertex_of_a_parabola_and_of_what_is_flat() -> None:
    assert periods.vertex(np.array([0.0, 3.0, 4.0, 1.0]), 2) == pytest.approx(1.75)
    assert periods.vertex(np.array([2.0, 2.0, 2.0]), 1) == 1
