"""Every class of simulated traces keeps its promises: true marks, possible values, the same trace for the same seed."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from epochcast.detector import InputError
from epochcast.detector.labels import Labels
from epochcast.detector.simulator import CLASSES, SimulatedTrace, simulate, simulate_class
from epochcast.detector.simulator.devices import DEVICES
from epochcast.detector.simulator.scenario import RecordingFaults, record

SEEDS = (0, 1, 2)
MOST_ROWS = 112_000  # three hours
METRICS = simulate(0, epochs=2).metrics.keys()
NVIDIA_SMI = {"gpu_utilization", "memory_utilization", "power_average", "memory_used"}
FEWER = {"logged": NVIDIA_SMI, "sparse": NVIDIA_SMI | {"temperature", "sm_clock", "memory_clock"}}
RATIOS = ("_active", "_occupancy", "_utilization")

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
    assert (20 if cls == "sparse" else 100) < trace.time.size < MOST_ROWS
    assert np.all(np.diff(trace.time) > 0)
    assert trace.metrics.keys() == FEWER.get(cls, METRICS)
    for name, values in trace.metrics.items():
        read = values[~np.isnan(values)]
        assert values.size == trace.time.size and read.size > 0 and np.isfinite(read).all(), name
        assert read.min() >= 0, name
        assert not name.endswith(RATIOS) or read.max() <= 1
        assert not name.startswith("pcie") or read.max() <= device.pcie_bytes_s
        assert not name.startswith("power") or read.max() < 1.1 * device.power_limit_w
        assert name != "memory_used" or read.max() < device.memory_bytes
        assert name != "energy" or np.all(np.diff(read) >= 0)

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


@pytest.mark.parametrize("cls", ["paper", "shared", "serving", "sparse", "logged"])
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


def within(trace: SimulatedTrace, name: str, start: float, end: float) -> np.ndarray:
    return trace.metrics[name][(trace.time > start) & (trace.time <= end)]


def test_sparse_rows_are_some_seconds_apart_with_jitter() -> None:
    for seed in range(8):
        trace = trace_of("sparse", seed)
        intervals = np.diff(trace.time)
        nominal = min((10.0, 15.0, 30.0), key=lambda wanted: abs(wanted - np.median(intervals)))
        assert 1 <= np.mean(intervals) / nominal < 1.0055
        assert 0.005 < np.std(intervals) < 0.05
        assert 4.5 < np.median(lengths(trace)) / nominal < 66
        assert not any(np.isnan(values).any() for values in trace.metrics.values())
        assert trace.metrics["gpu_utilization"].min() < 0.1 < 0.5 < trace.metrics["gpu_utilization"].max()


def test_a_sparse_reading_is_that_of_the_second_before() -> None:
    fast = {name: np.arange(600.0) for name in ("gpu_utilization", "memory_utilization", "power")}
    slow = dict.fromkeys(("temperature", "memory_used", "sm_clock", "memory_clock"), np.arange(600.0))
    recording = RecordingFaults(interval_s=15.03, jitter_s=0.0, stale=0.0)
    time, rows = record(100 + 0.1 * np.arange(1, 601), fast | slow, recording, np.random.default_rng(0))
    np.testing.assert_allclose(time, 100 + 15.03 * np.arange(1, 4))
    np.testing.assert_array_equal(rows["temperature"], [140, 300, 450])
    np.testing.assert_allclose(rows["power_average"], [144.5, 295.5, 445.5], atol=1)


def test_logged_readings_follow_the_epochs_parts() -> None:
    for seed in range(8):
        trace = trace_of("logged", seed)
        job = trace.settings["log"]
        np.testing.assert_allclose(np.diff(trace.time), 1, atol=0.011)
        assert 8 <= trace.epoch_starts.size <= 30
        assert np.median(lengths(trace)) == pytest.approx(job["epoch_s"], rel=0.03)
        assert 0.003 < np.std(lengths(trace)) / np.mean(lengths(trace)) < 0.05
        np.testing.assert_array_equal(trace.epoch_ends[:-1], trace.epoch_starts[1:])

        # One reading a second counts what is done in each part, whichever seconds that lies in.
        use, expected = trace.metrics["gpu_utilization"], 1 - job["idle"] - 0.4 * job["validation"]
        whole = within(trace, "gpu_utilization", trace.epoch_starts[0], trace.epoch_ends[-1])
        assert np.mean(whole) == pytest.approx(job["utilization"] * expected, rel=0.03)
        np.testing.assert_allclose(100 * use, np.round(100 * use), atol=1e-9)
        assert np.all(use[trace.time < trace.epoch_starts[0] - 0.1] == 0)
        assert np.all(use[trace.time > trace.epoch_ends[-1] + 1.1] == 0)
        for start, length in zip(trace.epoch_starts[1:-1], lengths(trace)[1:], strict=True):
            waits = within(trace, "gpu_utilization", start + 1.1, start + job["idle"] * length - 0.1)
            assert np.all(waits == 0)
        watts = trace.metrics["power_average"]
        lags = [np.corrcoef(use[3:-3], np.roll(watts, -lag)[3:-3])[0, 1] for lag in (0, 1, 2)]
        assert int(np.argmax(lags)) == 1
    assert any(trace_of("logged", seed).settings["log"]["validation"] == 0 for seed in range(12))


def test_validation_of_a_log_uses_less_than_training() -> None:
    for seed in range(12):
        trace = trace_of("logged", seed)
        job = trace.settings["log"]
        if job["validation"] * job["epoch_s"] > 4:
            for end, length in zip(trace.epoch_ends, trace.epoch_ends - trace.epoch_starts, strict=True):
                validates = within(trace, "gpu_utilization", end - job["validation"] * length + 1.1, end - 0.1)
                assert np.mean(validates) == pytest.approx(0.6 * job["utilization"], rel=0.1)


def test_every_kth_epoch_is_followed_by_an_evaluation() -> None:
    seen = set()
    for seed in range(12):
        trace = trace_of("sometimes_evaluated", seed)
        plan = trace.settings["jobs"][0]
        every, worked = plan["validation_every"], (trace.epoch_ends - trace.epoch_starts)[1:]
        evaluated = (np.arange(1, trace.epoch_starts.size) + 1) % every == 0
        plain = np.median(worked[~evaluated])
        share = (np.median(worked[evaluated]) - plain) / plain
        assert trace.epoch_starts.size >= 3 * every
        assert share == pytest.approx(plan["validation_s"] / plain, rel=0.2) and 0.07 < share < 1.05
        assert np.median(lengths(trace)) == pytest.approx(plain + plan["gap_s"], rel=0.05)
        seen.add(every)
    assert seen <= {2, 3, 4, 5, 6} and len(seen) > 2


def test_epochs_of_changing_become_longer_or_shorter_once() -> None:
    ratios = []
    for seed in range(12):
        steps = np.log(lengths(trace_of("changing", seed))[1:])
        cut = max(range(3, steps.size - 3), key=lambda at: abs(steps[:at].mean() - steps[at:].mean()))
        ratios.append(np.exp(np.median(steps[cut:]) - np.median(steps[:cut])))
        assert np.std(steps[:cut]) < 0.12 and np.std(steps[cut:]) < 0.12
        assert 0.3 < (cut + 1) / (steps.size + 1) < 0.7 and min(cut + 1, steps.size - cut) >= 5
    assert all(1.2 < max(ratio, 1 / ratio) < 2.7 for ratio in ratios)
    assert min(ratios) < 1 < max(ratios)


def test_long_start_is_busy_now_and_then_before_the_first_epoch() -> None:
    for trace in of_class("long_start"):
        job_s = trace.epoch_ends[-1] - trace.epoch_starts[0]
        before_s, after_s = trace.epoch_starts[0] - trace.time[0], trace.time[-1] - trace.epoch_ends[-1]
        assert 0.28 < (before_s - 10) / job_s < before_s / job_s < 1.5 + 10 / job_s + 0.05
        assert 0.04 < after_s / job_s < 0.45
        active = within(trace, "gr_engine_active", trace.time[0], trace.epoch_starts[0])
        assert 0.02 < np.mean(active > 0.5) < 0.6
        assert within(trace, "gr_engine_active", trace.epoch_ends[-1] + 3, trace.time[-1]).max() < 0.05


def test_half_duty_works_for_about_half_of_each_epoch() -> None:
    for seed in range(8):
        trace = trace_of("half_duty", seed)
        typical = np.percentile(trace.metrics["gr_engine_active"], 90)
        shares = [
            np.mean(within(trace, "gr_engine_active", start, end) > 0.4 * typical)
            for start, end in zip(trace.epoch_starts[1:-1], trace.epoch_starts[2:], strict=True)
        ]
        assert 0.28 < np.median(shares) < 0.7


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
