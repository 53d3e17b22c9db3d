"""Natural breaks."""

import numpy as np
import pytest

from epochcast.detector import detect

pytest.importorskip("jenkspy", reason="install epochcast[paper]")

TIME = 1.7e9 + 0.1 * np.arange(700)
CYCLE = np.arange(700) % 100
#: 10 s epochs: pause, warm-up, training.
LEVEL = np.select([CYCLE < 10, CYCLE < 20], [0.15, 0.5], 0.9) + np.random.default_rng(1).normal(scale=0.01, size=700)


def test_epochs_begin_where_the_lowest_class_is_left() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="jenks")
    assert found.period_s == pytest.approx(10)
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[10:600:100].tolist())


def test_idle_ends_do_not_take_a_class_of_their_own() -> None:
    idle = np.full(300, 0.01)
    time = 0.1 * np.arange(1300)
    level = np.where(LEVEL < 0.3, LEVEL + 0.25, LEVEL)  # nearer to warm-up than to idle
    values = np.concatenate([idle, level, idle])
    found = detect(time, {"dram_active": values}, method="jenks")
    assert found.period_s == pytest.approx(10)
    assert found.epochs[0].start == pytest.approx(time[310])
    assert found.epochs[-1].end == pytest.approx(time[910])
    assert detect(time, {"dram_active": values}, method="jenks", trim_share=0).verdict == "none"


def test_long_traces_are_thinned_for_the_classes_only() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="jenks", most_samples=90)
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[10:600:100].tolist())
