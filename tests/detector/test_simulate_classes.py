"""Every class of simulated traces keeps its promises: true marks, possible values, the same trace for the same seed."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from epochcast.detector import InputError
from epochcast.detector.evaluation import Labels
from epochcast.detector.simulator import CLASSES, SimulatedTrace, simulate, simulate_class
from epochcast.detector.simulator.devices import DEVICES

SEEDS = (0, 1, 2)
MOST_ROWS = 112_000  # three hours
METRICS = simulate(0, epochs=2).metrics.keys()
RATIOS = [name for name in METRICS if name.endswith(("_active", "_occupancy", "_utilization"))]

trace_of = cache(simulate_class)


def lengths(trace: SimulatedTrace) -> np.ndarray:
    return np.diff(trace.epoch_starts)


def of_class(cls: str) -> list[SimulatedTrace]:
    return [trace_of(cls, seed) for seed in SEEDS]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cls", CLASSES)
def test_values_are_possible_and_marks_lie_within_the_trace(cls: str, seed: int) -> None:
    trace = trace_of(cls, seed)
    device = next(device for device in DEVICES if device.name == trace.gpu)
    assert 100 < trace.time.size < MOST_ROWS
    assert np.all(np.diff(trace.time) > 0)
    assert trace.metrics.keys() == METRICS
    for name, values in trace.metrics.items():
        read = values[~np.isnan(values)]
        assert values.size == trace.time.size and read.size > 0 and np.isfinite(read).all(), name
        assert read.min() >= 0, name
    assert max(np.nanmax(trace.metrics[name]) for name in RATIOS) <= 1
    assert max(np.nanmax(trace.metrics[name]) for name in ("pcie_rx", "pcie_tx")) <= device.pcie_bytes_s
    assert np.nanmax(trace.metrics["power"]) < 1.1 * device.power_limit_w
    assert np.nanmax(trace.metrics["memory_used"]) < device.memory_bytes
    assert np.all(np.diff(trace.metrics["energy"]) >= 0)

    assert trace.training == CLASSES[cls].training == (trace.epoch_starts.size > 0)
    for starts, ends in ((trace.epoch_starts, trace.epoch_ends), (trace.epoch_starts2, trace.epoch_ends2)):
        assert np.all(starts < ends) and np.all(ends[:-1] <= starts[1:])
        assert starts.size == 0 or trace.time[0] - 0.2 < starts[0] < ends[-1] < trace.time[-1] + 25  # a hole may be last


@pytest.mark.parametrize("cls", CLASSES)
def test_labels_are_those_of_a_label_file(cls: str) -> None:
    trace = trace_of(cls, 0)
    content = json.loads(json.dumps(trace.labels()))
    labels = Labels.from_json(content)
    assert (labels.training, labels.steps) == (CLASSES[cls].training, CLASSES[cls].steps)
    assert labels.epoch_starts == tuple(trace.epoch_starts)
    assert content["cls"] == cls and content["simulated"] is True and content["settings"]["seed"] == 0


@pytest.mark.parametrize("cls", ["paper", "shared", "serving"])
def test_same_seed_same_trace_bit_for_bit(cls: str) -> None:
    first, again, other = trace_of(cls, 0), simulate_class(cls, 0), trace_of(cls, 1)
    assert first.labels() == again.labels()
    np.testing.assert_array_equal(first.time, again.time)
    for name, values in first.metrics.items():
        np.testing.assert_array_equal(values, again.metrics[name])
    assert first.time[0] != other.time[0]


def test_classes_of_one_seed_differ() -> None:
    assert len({trace_of(cls, 0).time[0] for cls in CLASSES}) == len(CLASSES)


def test_devices_and_levels_differ() -> None:
    traces = [trace_of(cls, seed) for cls in ("paper", "validation", "gap", "varying") for seed in SEEDS]
    assert len({trace.gpu for trace in traces}) > 2
    busiest = [np.percentile(trace.metrics["dram_active"], 90) for trace in traces]
    assert max(busiest) > 2 * min(busiest)


def test_only_two_jobs_have_a_second_set_of_marks() -> None:
    for cls in CLASSES:
        assert ("epoch_starts2" in trace_of(cls, 0).labels()) == (cls == "two_jobs")
    for trace in of_class("two_jobs"):
        periods = sorted(float(np.median(np.diff(starts))) for starts in (trace.epoch_starts, trace.epoch_starts2))
        assert periods[1] > 1.1 * periods[0]


@pytest.mark.parametrize(
    ("cls", "low", "high"), [("paper", 10, 10), ("few", 2, 3), ("many", 100, 500), ("long", 3, 12), ("short", 15, 400)]
)
def test_number_of_epochs(cls: str, low: int, high: int) -> None:
    for trace in of_class(cls):
        assert low <= trace.epoch_starts.size <= high


@pytest.mark.parametrize(("cls", "low", "high"), [("short", 0.8, 5), ("long", 150, 3700), ("varying", 4, 250)])
def test_length_of_epochs(cls: str, low: float, high: float) -> None:
    for trace in of_class(cls):
        assert low < np.median(lengths(trace)) < high


def test_epochs_vary_where_the_class_says_so() -> None:
    for trace in of_class("slow_first"):
        assert 1.35 < lengths(trace)[0] / np.median(lengths(trace)) < 4.5
    for trace in of_class("varying"):
        assert 0.015 < np.std(lengths(trace)[1:]) / np.mean(lengths(trace)) < 0.13
    for trace in of_class("shared"):
        assert 1.2 < lengths(trace)[1:].max() / lengths(trace).min() < 2.3


def test_a_save_makes_every_kth_epoch_longer() -> None:
    for trace in of_class("checkpoints"):
        plan = trace.settings["jobs"][0]
        worked = trace.epoch_ends - trace.epoch_starts
        saved = (np.arange(worked.size) + 1) % plan["checkpoint_every"] == 0
        longer = np.median(worked[saved]) - np.median(worked[~saved][1:])
        assert longer == pytest.approx(plan["checkpoint_s"], rel=0.5)
        assert plan["checkpoint_s"] >= 0.02 * np.median(lengths(trace)) * 0.9


def test_missing_rows_and_holes() -> None:
    for trace in of_class("missing"):
        distances = np.diff(trace.time)
        wanted = (trace.time[-1] - trace.time[0]) / 0.1
        assert 0.02 < 1 - trace.time.size / wanted < 0.6
        assert distances.max() > 1.5
    assert all(np.diff(trace.time).max() < 0.12 for trace in of_class("paper"))


def test_throttling_shows_in_clock_and_epochs() -> None:
    for trace in of_class("throttled"):
        clocks = trace.metrics["sm_clock"][~np.isnan(trace.metrics["sm_clock"])]
        device = next(device for device in DEVICES if device.name == trace.gpu)
        busy = clocks[clocks > device.base_hz]
        assert busy.min() < 0.95 * busy.max()
        worked = trace.epoch_ends - trace.epoch_starts
        assert worked.max() > 1.04 * worked.min()


def test_steps_repeat_strictly_and_nothing_else_does() -> None:
    assert {cls for cls, spec in CLASSES.items() if spec.steps} == {"batch_inference", "llm_steps"}
    assert not any(spec.training or spec.visible for spec in CLASSES.values() if spec.steps)


def test_marks_are_where_activity_begins() -> None:
    for trace in of_class("gap"):
        active = trace.metrics["gr_engine_active"]
        for end, start in zip(trace.epoch_ends[1:-1], trace.epoch_starts[2:], strict=True):
            if start - end > 0.35:
                within = (trace.time > end + 0.15) & (trace.time < start - 0.05)
                after = (trace.time > start + 0.2) & (trace.time < start + 2)
                assert active[within].mean() < 0.5 * active[after].mean()


@pytest.mark.parametrize(
    ("cls", "seed", "sentence"),
    [("gaming", 0, "class 'gaming' cannot be simulated: choose one of paper,"), ("paper", -1, "seed=-1: give 0 or more")],
)
def test_bad_arguments_are_refused_in_one_sentence(cls: str, seed: int, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        simulate_class(cls, seed)
    assert sentence in str(error.value) and "\n" not in str(error.value)
