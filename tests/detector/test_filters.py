"""Running means, medians and maxima, and quick lengths, against SciPy's own, which the tracker does not load."""

import numpy as np
import pytest
from scipy.fft import next_fast_len
from scipy.ndimage import maximum_filter1d, median_filter, uniform_filter1d

from epochcast.detector.filters import quick_length, running_max, running_mean, running_median

WIDTHS = (1, 2, 3, 4, 9, 41, 300)


@pytest.fixture(params=[1, 2, 5, 57, 400])
def rows(request: pytest.FixtureRequest) -> np.ndarray:
    """Three rows with many equal values among them."""
    return np.random.default_rng(request.param).normal(size=(3, request.param)).round(1)


@pytest.mark.parametrize("width", WIDTHS)
def test_means(rows: np.ndarray, width: int) -> None:
    np.testing.assert_allclose(running_mean(rows, width), uniform_filter1d(rows, width, mode="nearest"), atol=1e-12)
    np.testing.assert_allclose(running_mean(rows, width, "symmetric"), uniform_filter1d(rows, width), atol=1e-12)


@pytest.mark.parametrize("width", [width for width in WIDTHS if width % 2])
def test_medians_and_maxima(rows: np.ndarray, width: int) -> None:
    assert np.array_equal(running_median(rows, width), median_filter(rows, (1, width), mode="nearest"))
    assert np.array_equal(running_max(rows[0], width // 2), maximum_filter1d(rows[0], width, mode="nearest"))


def test_nothing_stays_of_what_has_left_the_window() -> None:
    """An idle GPU is idle: a rest of 1e-17 would make a level of its own."""
    values = np.concatenate([np.random.default_rng(1).random(500), np.zeros(500)])
    assert (running_mean(values, 20)[510:] == 0).all()


def test_quick_lengths() -> None:
    least = range(1, 20_000)
    assert [quick_length(n) for n in least] == [next_fast_len(n, real=True) for n in least]
