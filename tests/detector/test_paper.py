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
    picky = detect(TIME, {"dram_active": LEVEL}, method="paper", distance=300)
    assert 0 < len(picky.epochs) < len(plain.epochs)


def test_what_the_text_leaves_open_is_a_parameter() -> None:
    plain = detect(TIME, {"dram_active": LEVEL}, method="paper")
    lengths = [epoch.end - epoch.start for epoch in plain.epochs]
    middle = detect(TIME, {"dram_active": LEVEL}, method="paper", average="median")
    assert middle.period_s == pytest.approx(np.median(lengths))
    assert middle.epochs == plain.epochs
    values = LEVEL
    for _ in range(2):
        values = savgol_filter(
            luminol.scores(values, precision=6, chunk_size=3, lag_window=60, future_window=40), 59, 3, mode="wrap"
        )
    found = detect(
        TIME,
        {"dram_active": LEVEL},
        method="paper",
        passes=2,
        polyorder=3,
        window_rounding="down",
        edges="wrap",
        precision=6,
        chunk_size=3,
        lag_window=60,
        future_window=40,
    )
    assert np.allclose(found.scores["pass2"], values)


def test_shortest_series() -> None:
    with pytest.raises(InputError, match="at least 80 samples at these settings, the trace has 79"):
        detect(TIME[:79], {"dram_active": LEVEL[:79]}, method="paper")
    detect(TIME[:80], {"dram_active": LEVEL[:80]}, method="paper")
    with pytest.raises(InputError, match="at least 120 samples at these settings, the trace has 119"):
        detect(TIME[:119], {"dram_active": LEVEL[:119]}, method="paper", window_rounding="down")
    detect(TIME[:120], {"dram_active": LEVEL[:120]}, method="paper", window_rounding="down")


def test_work_clock_reports_both_periods() -> None:
    found = detect(TIME, {"cpu": np.abs(LEVEL)}, method="paper")
    assert found.clock == "work"
    assert found.period_s
    assert found.period_work
    assert found.period_work < found.period_s
    assert found.scores["pass3"].shape == TIME.shape
