"""The authors' notebook, as described."""

import numpy as np
import pytest
from scipy.signal import find_peaks, savgol_filter

from epochcast.detector import detect, luminol

TIME = 1.7e9 + 0.1 * np.arange(3000)
LEVEL = (np.arange(3000) % 300 < 250) * 0.6 + np.random.default_rng(3).normal(scale=0.02, size=3000)


def scaled(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / (values.max() - values.min())


def test_is_the_description_word_by_word_with_the_package_itself() -> None:
    values = scaled(luminol.package_scores(LEVEL[1500:]))
    for _ in range(2):
        values = scaled(savgol_filter(values, 91, 1))
    peaks = list(find_peaks(values, prominence=0.01)[0])
    for peak in peaks:
        if values[peak] < values.mean():
            peaks.remove(peak)
    found = detect(TIME, {"gpu_utilization": LEVEL}, method="notebook")
    assert found.period_s == pytest.approx((TIME[1500 + peaks[-1]] - TIME[1500 + peaks[0]]) / (len(peaks) - 1))
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[1500 + np.array(peaks[:-1])].tolist())
    assert list(found.scores) == ["luminol", "smoothed1", "smoothed2"]
    assert found.scores["smoothed2"][1500:] == pytest.approx(values)
    assert not found.scores["smoothed2"][:1500].any()


def test_a_low_peak_after_a_removed_one_is_spared() -> None:
    """The authors' loop removes from the list that it iterates over."""
    values = np.random.default_rng(7).random(3000)
    found = detect(TIME, {"gpu_utilization": values}, method="notebook", window_divisor=300)  # a window of 11, many peaks
    score = found.scores["smoothed2"][1500:]
    peaks = find_peaks(score, prominence=0.01)[0]
    low = score[peaks] < score.mean()
    assert (low[:-1] & low[1:]).any(), "two low peaks in a row, or this test shows nothing"
    kept, i = [], 0
    while i < peaks.size:  # a list's iterator goes on by position: after a removal it steps over the next one
        if not low[i]:
            kept.append(peaks[i])
            i += 1
            continue
        if i + 1 < peaks.size:
            kept.append(peaks[i + 1])
        i += 2
    starts = [*[epoch.start for epoch in found.epochs], found.epochs[-1].end]
    assert starts == pytest.approx(TIME[1500 + np.array(kept)].tolist())
    assert len(kept) > (~low).sum()


def test_prefers_gpu_utilization_and_takes_what_is_named() -> None:
    metrics = {"dram_active": np.random.default_rng(0).random(3000), "gpu_utilization": LEVEL}
    alone = detect(TIME, {"gpu_utilization": LEVEL}, method="notebook")
    assert detect(TIME, metrics, method="notebook") == alone
    assert detect(TIME, metrics, method="notebook", metric="dram_active") != alone


def test_never_looks_beyond_its_piece() -> None:
    time = 0.1 * np.arange(9000)
    values = np.resize(LEVEL, 9000)
    other = values.copy()
    other[:4500] = 0
    other[4500 + 1999 :] = 0
    found = detect(time, {"gpu_utilization": values}, method="notebook")
    assert found == detect(time, {"gpu_utilization": other}, method="notebook")
    assert found.epochs[0].start >= 450
    assert found.epochs[-1].end <= 450 + 199.9


@pytest.mark.parametrize(("samples", "window"), [(301, 11), (700, 21), (3000, 91), (4000, 101), (19989, 231)])
def test_window_by_length(samples: int, window: int) -> None:
    values = np.resize(LEVEL, samples)
    found = detect(0.1 * np.arange(samples), {"gpu_utilization": values}, method="notebook", rounds=1)
    piece = slice(samples // 2, min(samples, samples // 2 + 1999))
    wanted = scaled(savgol_filter(found.scores["luminol"][piece], window, 1))
    assert found.scores["smoothed1"][piece] == pytest.approx(wanted)
