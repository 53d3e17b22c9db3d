"""A step repeated: what is counted, and when NVML is read."""

import math
import time

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.measurement import steady_loop
from epochcast.analyzer.backends.occupancy.measurement.steady_loop import run_steadily


def test_two_steps_are_not_counted_and_each_is_waited_for():
    calls = []
    steady = run_steadily(lambda: calls.append("step"), lambda: calls.append("finish"), 0.0, lambda: math.nan)
    assert steady.steps == 3
    assert calls == ["step", "finish"] * 5
    assert steady.step_s > 0
    assert steady.iqr_s >= 0
    assert math.isnan(steady.nvml_utilisation)


def test_nvml_is_read_in_the_last_part_alone(monkeypatch):
    monkeypatch.setattr(steady_loop, "_SETTLED_S", 0.05)
    monkeypatch.setattr(steady_loop, "_BETWEEN_READINGS_S", 0.01)
    begun, read = time.perf_counter(), []

    def utilisation():
        read.append(time.perf_counter() - begun)
        return math.nan if len(read) % 2 else 0.5

    steady = run_steadily(lambda: time.sleep(0.001), lambda: None, 0.2, utilisation)
    assert len(read) >= 2
    assert min(read) >= 0.05
    assert steady.nvml_utilisation == 0.5
    assert steady.step_s >= 0.001
