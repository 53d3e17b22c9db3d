"""Simulated traces: possible values, marks within the trace, the same trace for the same seed."""

import json
from typing import Any

import numpy as np
import pytest

from epochcast.detector import InputError
from epochcast.detector.labels import Labels
from lab.simulator import CLASSES, SimulatedTrace, simulate, simulate_class
from lab.simulator.devices import DEVICES

RATIOS = ("_active", "_occupancy", "_utilization")


def same(one: SimulatedTrace, other: SimulatedTrace) -> bool:
    return one.labels() == other.labels() and all(
        np.array_equal(values, other.metrics[name], equal_nan=True) for name, values in one.metrics.items()
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_values_are_possible_and_marks_lie_within_the_trace(cls: str) -> None:
    trace = simulate_class(cls, 0)
    device = next(device for device in DEVICES if device.name == trace.gpu)
    assert np.all(np.diff(trace.time) > 0)
    for name, values in trace.metrics.items():
        read = values[~np.isnan(values)]
        assert values.size == trace.time.size and read.size > 0 and np.isfinite(read).all() and read.min() >= 0, name
        assert not name.endswith(RATIOS) or read.max() <= 1
        assert not name.startswith("power") or read.max() < 1.1 * device.power_limit_w
        assert name != "memory_used" or read.max() < device.memory_bytes
        assert name != "energy" or np.all(np.diff(read) >= 0)
    starts, ends = trace.epoch_starts, trace.epoch_ends
    assert trace.training == CLASSES[cls].training == (starts.size > 0)
    assert np.all(starts < ends) and np.all(ends[:-1] <= starts[1:])
    assert starts.size == 0 or trace.time[0] - 0.2 < starts[0] < ends[-1] < trace.time[-1] + 25  # a hole may be last
    labels = Labels.from_json(json.loads(json.dumps(trace.labels())))
    assert (labels.training, labels.steps, labels.epoch_starts) == (trace.training, CLASSES[cls].steps, tuple(starts))


def test_a_seed_makes_the_same_trace_again_and_another_seed_another() -> None:
    for make in (simulate, lambda seed: simulate_class("shared", seed), lambda seed: simulate_class("logged", seed)):
        assert same(make(3), make(3))
        assert not same(make(3), make(4))


def test_the_textbook_job_shows_its_epochs_where_its_marks_say() -> None:
    trace = simulate(3)
    lengths, active = np.diff(trace.epoch_starts), trace.metrics["sm_active"]
    assert np.median(lengths) == pytest.approx(20, rel=0.03) and lengths[0] == lengths.max()
    for start, end in zip(trace.epoch_starts, trace.epoch_ends, strict=True):
        assert active[(trace.time > start + 1) & (trace.time <= end - 4)].mean() > 0.3
        assert active[(trace.time > end + 0.1) & (trace.time <= end + 0.2)].mean() < 0.1
    used = np.diff(trace.metrics["energy"])
    assert trace.metrics["power"][1:].sum() * 0.1 == pytest.approx(used.sum(), rel=0.01)
    assert simulate(5, kind="idle", epochs=4).metrics["sm_active"].max() < 0.05
    assert 0.01 < simulate(5, kind="serving", epochs=4).metrics["sm_active"].mean() < 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "gaming"}, "kind 'gaming' cannot be simulated; choose one of training, serving, idle"),
        ({"epochs": 0}, "epochs=0"),
        ({"lead_s": float("nan")}, "lead_s=nan"),
        ({"epoch_s": 3.0}, "leaves -0.10 s for steps"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        simulate(**arguments)
    with pytest.raises(InputError, match="class 'gaming' cannot be simulated"):
        simulate_class("gaming", 0)
