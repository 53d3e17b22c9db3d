"""The plain autocorrelation."""

import numpy as np
import pytest

from epochcast.detector import detect

from .. import naive

TIME = 1.7e9 + 0.1 * np.arange(700)
LEVEL = (np.arange(700) % 90 < 70) + np.random.default_rng(1).normal(scale=0.1, size=700)


def test_takes_the_highest_peak_after_the_first_zero() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="autocorrelation")
    assert found.period_s == pytest.approx(9)
    lags = 700 // 2 + 1
    plain = np.array(naive.autocorrelation(LEVEL.tolist(), lags)) * (700 - np.arange(lags)) / 700
    assert found.scores["candidate_quality"] == pytest.approx(plain, abs=1e-5)
    assert found.scores["candidate_period"] == pytest.approx(0.1 * np.arange(lags))
    after = np.flatnonzero(plain <= 0)[0]
    assert after + np.argmax(plain[after:]) == 90


def test_boundaries_stand_where_training_begins() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="autocorrelation")
    starts = np.array([epoch.start for epoch in found.epochs])
    offset = (starts - TIME[0] + 4.5) % 9 - 4.5
    assert np.abs(offset).max() < 0.2
    assert found.confidence > 0.8
