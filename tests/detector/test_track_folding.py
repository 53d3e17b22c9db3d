"""Folding: strict cycles of few readings, as a node's power is read."""

import numpy as np
import pytest

from epochcast.detector import clock as clocks
from epochcast.detector import detect
from epochcast.detector.methods.track.folding import Folded, fold
from epochcast.detector.methods.track.grid import Grid, build, busy_stretches
from epochcast.detector.signals import clean


def power(
    period_s: float, *, readings: int = 300, interval_s: float = 2.0, noise: float = 15.0
) -> tuple[np.ndarray, np.ndarray]:
    """Readings of a node's power that dips by 5 % for a sixth of each cycle; times jitter by milliseconds."""
    rng = np.random.default_rng(0)
    time = 1.7e9 + interval_s * np.arange(readings) + rng.uniform(0, 0.02, readings)
    dips = (time / period_s) % 1 < 1 / 6
    return time, 7000 - 350 * dips + rng.normal(0, noise, readings)


def folded(time: np.ndarray, values: np.ndarray) -> Folded | None:
    signals = clean(time, {"power": values})
    grid = build(signals, clocks.choose(signals), busy_stretches(signals)[0])
    assert grid is not None
    return fold(grid)


@pytest.mark.parametrize("period_s", [7.66, 11.3, 15.07, 23.9])
def test_finds_the_period_and_its_phase(period_s: float) -> None:
    time, values = power(period_s)
    found = folded(time, values)
    assert found is not None
    assert 2.0 * found.period == pytest.approx(period_s, rel=0.01)
    # Each boundary is the end of a dip: a sixth of a cycle after the cycle's origin.
    phase = ((time[0] + 2.0 * found.boundaries) / period_s - 1 / 6) % 1
    assert np.all(np.minimum(phase, 1 - phase) < 0.2)


def test_nothing_folds_in_noise() -> None:
    rng = np.random.default_rng(1)
    time = 1.7e9 + 2.0 * np.arange(300)
    chance = folded(time, 7000 + rng.normal(0, 15, 300))
    assert chance is None or chance.significance < 35  # of 300 readings; a cycle that shows has 100 and more
    assert detect(time, {"power": 7000 + rng.normal(0, 15, 300)}).verdict == "none"


def test_a_stretch_with_a_single_reading_does_not_fold() -> None:
    # Found by fuzzing: samples that came ever more seldom.
    assert fold(Grid(0.0, 0.1, 4, 4.0, np.ones((1, 2000)), np.array([156.7]), np.ones((1, 1)))) is None


def test_the_tracker_answers_with_it() -> None:
    found = detect(*_one(power(11.3)))
    assert found.verdict == "epochs"
    assert found.period_s == pytest.approx(11.3, rel=0.01)


@pytest.mark.parametrize("readings", [30.0, 37.3, 40.0])
def test_half_a_cycle_that_is_too_long_to_fold_is_not_the_answer(readings: float) -> None:
    """Half of it folds, the whole of it lies beyond the periods that are folded: 0.93 and more of confidence in the half."""
    rng = np.random.default_rng(1)
    index = np.arange(int(12 * readings))
    level = np.where(index / readings % 1 < 0.85, 0.8, 0.0) + rng.normal(0, 0.02, index.size)
    found = detect(1.7e9 + index + rng.uniform(0, 0.05, index.size), {"dram_active": level.clip(0)})
    assert (found.verdict, found.period_s) == ("epochs", pytest.approx(readings, rel=0.05))


def _one(readings: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    return readings[0], {"power": readings[1]}
