"""The simulator keeps its promises: marks that fit the signals, values that a T4 could show, one trace per seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epochcast.detector import InputError
from epochcast.detector.simulator import SimulatedTrace, simulate

RATIOS = (
    "gr_engine_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "fp32_active",
    "fp16_active",
    "gpu_utilization",
    "memory_utilization",
)
SLOW = ("gpu_utilization", "memory_utilization", "sm_clock", "memory_clock", "temperature", "memory_used", "bar1_free")


@pytest.fixture(scope="module")
def training() -> SimulatedTrace:
    return simulate(3)


def within(trace: SimulatedTrace, start: float, end: float, name: str) -> np.ndarray:
    values = trace.metrics[name][(trace.time > start) & (trace.time <= end)]
    return values[~np.isnan(values)]


def test_same_seed_same_trace_other_seed_another(training: SimulatedTrace) -> None:
    again, other = simulate(3), simulate(4)
    for name, values in training.metrics.items():
        np.testing.assert_array_equal(values, again.metrics[name])
    np.testing.assert_array_equal(training.epoch_starts, again.epoch_starts)
    assert not np.array_equal(training.epoch_starts, other.epoch_starts)


def test_ticks_are_a_tenth_of_a_second_and_every_column_has_one_value_per_tick(training: SimulatedTrace) -> None:
    np.testing.assert_allclose(np.diff(training.time), 0.1, atol=1e-6)
    assert {len(values) for values in training.metrics.values()} == {len(training.time)}


def test_epochs_are_as_long_as_asked_and_the_first_is_slower(training: SimulatedTrace) -> None:
    lengths = np.diff(training.epoch_starts)
    assert len(training.epoch_starts) == len(training.epoch_ends) == 12
    assert np.all(training.epoch_ends[:-1] < training.epoch_starts[1:])
    assert np.median(lengths) == pytest.approx(20, rel=0.03)
    assert lengths[0] == lengths.max() > 1.08 * np.median(lengths)


def test_the_signals_show_training_validation_and_gap_where_the_marks_say(training: SimulatedTrace) -> None:
    for start, end in zip(training.epoch_starts[1:], training.epoch_ends[1:], strict=True):
        train = within(training, start + 1, end - 4, "dram_active").mean()
        validation = within(training, end - 2.2, end - 1, "dram_active").mean()
        assert validation < 0.8 * train
        assert within(training, end + 0.1, end + 0.2, "sm_active").mean() < 0.1
        assert within(training, end - 0.5, end, "pcie_tx").max() > 1e9


def test_values_are_what_a_t4_can_show(training: SimulatedTrace) -> None:
    for name in RATIOS:
        values = training.metrics[name][~np.isnan(training.metrics[name])]
        assert values.min() >= 0 and values.max() <= 1, name
    assert training.metrics["sm_active"].max() > 0.5
    assert training.metrics["power"].min() > 5 and training.metrics["power"].max() < 75
    np.testing.assert_allclose(
        np.nansum([training.metrics["memory_used"], training.metrics["memory_free"]], axis=0)[::10], 15109 * 2**20
    )
    clock = training.metrics["sm_clock"][::10]
    assert set(np.unique(clock[clock > 300e6]) % 15e6) == {0.0} and clock.max() <= 1590e6


def test_energy_is_the_integral_of_power(training: SimulatedTrace) -> None:
    used = np.diff(training.metrics["energy"])
    assert np.all(used > 0)
    assert training.metrics["power"][1:].sum() * 0.1 == pytest.approx(used.sum(), rel=0.01)


@pytest.mark.parametrize("name", SLOW)
def test_slow_metrics_have_one_reading_a_second(training: SimulatedTrace, name: str) -> None:
    read = np.flatnonzero(~np.isnan(training.metrics[name]))
    np.testing.assert_array_equal(read, np.arange(0, len(training.time), 10))


def test_checkpoints_every_other_epoch_make_those_epochs_longer() -> None:
    trace = simulate(1, checkpoint_every=2, checkpoint_s=2.0, warmup=0.0)
    lengths = trace.epoch_ends - trace.epoch_starts
    assert lengths[1::2].mean() - lengths[::2].mean() == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize("kind", ["idle", "serving"])
def test_traces_without_epochs_say_so(kind: str) -> None:
    trace = simulate(5, kind=kind, epochs=4)
    assert not trace.training
    assert len(trace.epoch_starts) == len(trace.epoch_ends) == 0
    assert trace.labels()["training"] is False
    assert len(trace.time) == pytest.approx((4 * 20 + 24) * 10, abs=20)


def test_idle_does_nothing_and_serving_something() -> None:
    assert simulate(5, kind="idle", epochs=4).metrics["sm_active"].max() < 0.05
    assert 0.01 < simulate(5, kind="serving", epochs=4).metrics["sm_active"].mean() < 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "gaming"}, "kind 'gaming' cannot be simulated; choose one of training, serving, idle"),
        ({"epochs": 0}, "epochs=0"),
        ({"checkpoint_every": -1}, "checkpoint_every=-1"),
        ({"step_s": 0.0}, "step_s=0.0"),
        ({"lead_s": float("nan")}, "lead_s=nan"),
        ({"epoch_s": 3.0}, "leaves -0.10 s for steps"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        simulate(**arguments)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
