"""The fold: what other cycles predict, multiples and residues, and what is too short to be seen."""

import numpy as np
import pytest

from epochcast.detector import detect
from epochcast.detector.methods.track.fold import Folding, even_boundaries, exact_period


def power(
    period_s: float, *, readings: int = 300, interval_s: float = 2.0, noise: float = 15.0
) -> tuple[np.ndarray, np.ndarray]:
    """Readings of a node's power that dips by 5 % for a sixth of each cycle; times jitter by milliseconds."""
    rng = np.random.default_rng(0)
    time = 1.7e9 + interval_s * np.arange(readings) + rng.uniform(0, 0.02, readings)
    dips = (time / period_s) % 1 < 1 / 6
    return time, 7000 - 350 * dips + rng.normal(0, noise, readings)


def dips(period: float, *, every: int = 1, cycles: int = 48, seed: int = 0) -> np.ndarray:
    """(1, n) with a dip in each cycle of so many samples, and a deeper one in every k-th."""
    n = int(period * cycles)
    cycle, phase = np.divmod(np.arange(n) / period, 1)
    level = 1 - 0.4 * (phase < 0.2) * (cycle % every == 0) - 0.2 * (phase < 0.2) * (every > 1)
    return (level + np.random.default_rng(seed).normal(0, 0.1, n))[None]


def test_evidence_adds_over_cycles() -> None:
    few, many = (Folding(dips(20, cycles=cycles)).evidence(20.0) for cycles in (12, 48))
    assert 10 < few < many / 3


def test_noise_and_walks_have_no_evidence() -> None:
    rng = np.random.default_rng(2)
    for values in (rng.normal(size=(2, 900)), rng.normal(size=(2, 900)).cumsum(axis=1)):
        folding = Folding(values)
        assert max((folding.own(period) for period in folding.peaks()[:6]), default=0.0) < 10


def test_a_multiple_has_less_evidence_than_the_cycle() -> None:
    folding = Folding(dips(20))
    assert folding.own(20.0) > 1.4 * max(folding.own(40.0), folding.own(60.0))


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_part_of_a_cycle_is_refuted_by_its_residue(every: int) -> None:
    """One dip in k cycles: the other k - 1 do not predict it."""
    n = 20 * 48
    cycle, phase = np.divmod(np.arange(n) / 20, 1)
    values = (1 - 0.4 * (phase < 0.2) * (cycle % every == 0) + np.random.default_rng(0).normal(0, 0.1, n))[None]
    folding = Folding(values)
    assert folding.own(20.0) <= 0 < folding.own(20.0 * every)


@pytest.mark.parametrize("period", [3.83, 5.65, 7.53])
def test_boundaries_of_a_strict_cycle(period: float) -> None:
    n = 600
    values = (1.0 * (np.arange(n) / period % 1 < 1 / 6) + np.random.default_rng(0).normal(0, 0.05, n))[None]
    assert exact_period(values, period * 1.01) == pytest.approx(period, rel=1e-3)
    boundaries = even_boundaries(values, period * 1.01)
    phase = (boundaries / period - 1 / 6) % 1  # the end of the rarer part
    assert np.all(np.minimum(phase, 1 - phase) < 0.25)


@pytest.mark.parametrize("period_s", [11.3, 15.07, 23.9])
def test_strict_cycles_of_few_readings_are_answered(period_s: float) -> None:
    time, values = power(period_s)
    found = detect(time, {"power": values})
    assert found.verdict == "epochs"
    assert found.period_s == pytest.approx(period_s, rel=0.02)


@pytest.mark.parametrize("step", [1.7, 2.3333, 2.4, 2.5])
def test_a_cycle_of_less_than_three_readings_is_not_seen_as_a_longer_one(step: float) -> None:
    """Steps of 0.25 s read every 0.1 s repeat after 0.5 s, those of 0.24 s after 1.2 s: neither is a cycle of the job."""
    rng = np.random.default_rng(1)
    time = np.arange(3000) * 0.1 + rng.normal(0, 0.0002, 3000)
    phase = time / (0.1 * step) % 1
    level = np.where(phase < 0.7, 0.9, 0.4) + rng.normal(0, 0.05, time.size)
    found = detect(1.7e9 + time, {"sm_active": level, "power": np.where(phase < 0.3, 250, 180) + rng.normal(0, 5, time.size)})
    assert found.verdict == "none"
