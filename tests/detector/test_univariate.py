"""What methods of one's own are made of (docs/how-to/add-a-detection-method.md)."""

import numpy as np
import pytest

from epochcast.detector.methods.univariate import MetricSeries, laid


def test_laid_boundaries_stand_where_the_cycle_rises() -> None:
    reading = np.arange(1000.0)
    boundaries, explained = laid(MetricSeries(np.where((reading - 30) % 100 < 80, 1.0, 0.2), reading), 100.0)
    assert boundaries == pytest.approx(np.arange(30, 1000, 100), abs=100 / 64)
    assert explained > 0.95
    assert laid(MetricSeries(np.random.default_rng(0).random(1000), reading), 100.0)[1] < 0.15
