"""Natural breaks."""

import numpy as np
import pytest

import lab.rivals.detection  # noqa: F401 - registers the method
from epochcast.detector import detect

pytest.importorskip("jenkspy", reason="install epochcast[dev]")

TIME = 1.7e9 + 0.1 * np.arange(700)
CYCLE = np.arange(700) % 100
#: 10 s epochs: pause, warm-up, training.
LEVEL = np.select([CYCLE < 10, CYCLE < 20], [0.15, 0.5], 0.9) + np.random.default_rng(1).normal(scale=0.01, size=700)


def test_epochs_begin_where_the_lowest_class_is_left() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="jenks")
    assert found.period_s == pytest.approx(10)
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[10:600:100].tolist())
