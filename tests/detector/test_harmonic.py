"""The harmonic product spectrum."""

import numpy as np
import pytest

from epochcast.detector import detect

TIME = 1.7e9 + 0.1 * np.arange(2000)
PULSES = (np.arange(2000) % 170 > 150) + np.random.default_rng(1).normal(scale=0.1, size=2000)


def test_the_period_is_not_a_whole_part_of_the_trace() -> None:
    found = detect(TIME, {"dram_active": PULSES}, method="harmonic")
    assert found.period_s == pytest.approx(17, rel=0.01)
    starts = np.array([epoch.start for epoch in found.epochs])
    offset = (starts - TIME[151] + 8.5) % 17 - 8.5
    assert np.abs(offset).max() < 0.6


def test_harmonics_outweigh_one_strong_tone() -> None:
    """A sine of 3 s is the strongest line, but has no multiples."""
    values = 0.6 * PULSES + np.sin(2 * np.pi * 0.1 * np.arange(2000) / 3)
    assert detect(TIME, {"x": values}, method="harmonic", harmonics=1).period_s == pytest.approx(3, rel=0.01)
    assert detect(TIME, {"x": values}, method="harmonic").period_s == pytest.approx(17, rel=0.01)


def test_candidates_go_up_to_half_the_trace() -> None:
    found = detect(TIME, {"x": PULSES}, method="harmonic")
    periods, product = found.scores["candidate_period"], found.scores["candidate_quality"]
    assert (np.diff(periods) > 0).all()
    assert periods[-1] <= 100.1
    assert periods[np.argmax(product)] == pytest.approx(17, rel=0.01)
    assert product.max() == 1
