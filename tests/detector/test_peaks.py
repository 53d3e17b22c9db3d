"""Peaks that stand out, against SciPy's own, which the detector does not load."""

import numpy as np
import pytest
from scipy.signal import find_peaks

from epochcast.detector.filters import prominent_peaks


@pytest.mark.parametrize("prominence", [0.0, 0.04, 1.0, 2.0])
def test_the_same_peaks_as_scipy(prominence: float) -> None:
    rng = np.random.default_rng(int(100 * prominence))
    curves = [
        draw for n in range(60) for draw in (rng.normal(size=n), rng.integers(0, 4, n) / 2, rng.integers(-1, 2, n).cumsum())
    ]
    found = [prominent_peaks(np.asarray(curve, dtype=np.float64), prominence).tolist() for curve in curves]
    assert found == [find_peaks(curve, prominence=prominence)[0].tolist() for curve in curves]
    assert sum(map(len, found)) > 100


def test_a_plateau_counts_once_and_an_end_never() -> None:
    assert prominent_peaks(np.array([9.0, 1, 3, 3, 3, 1, 2, 9]), 0.5).tolist() == [3]
    assert prominent_peaks(np.array([1.0, 1, 1]), 0.0).size == 0
