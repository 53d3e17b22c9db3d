"""The recipe of section III-B."""

import numpy as np
import pytest
from scipy.signal import savgol_filter

from epochcast.detector import InputError, detect, luminol

TIME = 1.7e9 + 0.1 * np.arange(2400)
LEVEL = (np.arange(2400) % 240 < 200) * 0.6 + np.random.default_rng(3).normal(scale=0.02, size=2400)


def test_uses_dram_active_or_what_is_named() -> None:
    metrics = {"power": np.random.default_rng(0).random(2400), "dram_active": LEVEL}
    alone = detect(TIME, {"dram_active": LEVEL}, method="paper")
    assert detect(TIME, metrics, method="paper") == alone
    assert detect(TIME, metrics, method="paper", metric="power") != alone


def test_confidence_is_the_share_of_even_distances() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="paper")
    lengths = np.array([epoch.end - epoch.start for epoch in found.epochs])
    assert found.confidence == pytest.approx(np.mean(np.abs(lengths / lengths.mean() - 1) <= 0.15))
    assert found.jobs[0].period_s == found.period_s


def test_bounds_on_peaks_leave_fewer() -> None:
    plain = detect(TIME, {"dram_active": LEVEL}, method="paper")
    picky = detect(TIME, {"dram_active": LEVEL}, method="paper", prominence=0.3 * np.ptp(plain.scores["pass3"]))
    assert 0 < len(picky.epochs) < len(plain.epochs)


def test_each_pass_smooths_the_score_of_the_one_before() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="paper", passes=2, average="median")
    values = LEVEL
    for _ in range(2):
        values = savgol_filter(luminol.scores(values), 61, 2)
    assert np.allclose(found.scores["pass2"], values)
    assert found.period_s == pytest.approx(np.median([epoch.end - epoch.start for epoch in found.epochs]))


def test_shortest_series() -> None:
    with pytest.raises(InputError, match="at least 80 samples at these settings, the trace has 79"):
        detect(TIME[:79], {"dram_active": LEVEL[:79]}, method="paper")
    detect(TIME[:80], {"dram_active": LEVEL[:80]}, method="paper")


def test_work_clock_reports_both_periods() -> None:
    found = detect(TIME, {"cpu": np.abs(LEVEL)}, method="paper")
    assert found.clock == "work"
    assert found.period_s
    assert found.period_work
    assert found.period_work < found.period_s
    assert found.scores["pass3"].shape == TIME.shape
