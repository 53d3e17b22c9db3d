"""What the tracker says next to the period: ends, stretches, reasons, and that it does not halve or double."""

import numpy as np
import pytest

from epochcast.detector import detect
from lab.simulator import simulate_class


def levels(
    *parts: tuple[float, float], interval_s: float = 0.1, noise: float = 0.02
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Utilisation and power of (seconds, level) one after the other."""
    level = np.concatenate([np.full(round(seconds / interval_s), level) for seconds, level in parts])
    level = np.clip(level + np.random.default_rng(1).normal(0, noise, level.size), 0, 1)
    return 1.7e9 + interval_s * np.arange(level.size), {"gpu_utilization": level, "power": 60 + 200 * level}


def test_idle_and_a_waiting_process_around_the_job_are_no_epochs() -> None:
    around = [(20.0, 0.0), (8.0, 0.2)]
    time, metrics = levels(*around, *[(9.0, 0.9), (1.0, 0.6)] * 12, *around[::-1])
    found = detect(time, metrics)
    assert len(found.epochs) == 12
    assert found.epochs[0].start - time[0] == pytest.approx(28, abs=0.5)
    assert found.epochs[-1].end - time[0] == pytest.approx(148, abs=0.5)


def test_a_period_that_doubles_is_two_stretches() -> None:
    time, metrics = levels((5, 0.0), *[(18.0, 0.9), (2.0, 0.3)] * 12, *[(38.0, 0.9), (2.0, 0.3)] * 6, (5, 0.0))
    found = detect(time, metrics)
    assert (found.verdict, found.reason, found.epochs) == ("none", "period_changes", ())
    assert [stretch.period_s for stretch in found.stretches] == pytest.approx([20, 40], rel=0.02)
    change = time[0] + 5 + 12 * 20
    assert found.stretches[0].end <= change + 20
    assert found.stretches[1].start >= change - 20


def test_a_short_change_leaves_the_period_of_the_longer_part() -> None:
    time, metrics = levels((5, 0.0), *[(18.0, 0.9), (2.0, 0.3)] * 40, *[(33.0, 0.9), (2.0, 0.3)] * 8, (5, 0.0))
    found = detect(time, metrics)
    assert found.verdict == "epochs"
    assert found.period_s == pytest.approx(20, rel=0.02)
    assert [stretch.period_s for stretch in found.stretches] in (
        pytest.approx([20, 35], rel=0.02),
        pytest.approx([20], rel=0.02),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_log_at_1_hz_is_not_halved(seed: int) -> None:
    """22 s of which 2 s load: half the epoch was answered with confidence 0.98 in 16 of 16 seeds."""
    rng = np.random.default_rng(seed)
    busy = np.concatenate(
        [np.repeat([0.0, 1.0], np.round([10 * (2 + 0.1 * rng.normal()), 200]).astype(int)) for _ in range(20)]
    )
    level = busy[: busy.size // 10 * 10].reshape(-1, 10).mean(axis=1)
    metrics = {"gpu_utilization": np.round(level * 0.95, 2), "power_average": 60 + 180 * level + rng.normal(0, 2, level.size)}
    found = detect(1.7e9 + np.arange(level.size), metrics)
    assert found.period_s == pytest.approx(22, rel=0.05)
    assert found.samples_per_epoch == pytest.approx(22, rel=0.05)


def test_alternate_bursts_that_differ_are_one_cycle() -> None:
    time, metrics = levels((5, 0.0), *[(9.0, 0.9), (1.0, 0.1), (9.0, 0.5), (1.0, 0.1)] * 12, (5, 0.0))
    found = detect(time, metrics)
    assert found.period_s is None or found.period_s == pytest.approx(20, rel=0.02)


def test_the_period_of_quantised_boundaries_is_their_slope() -> None:
    """A scrape a second of means over 5 s: the median of the lengths, all 20 or 25 s, was 24.97 for 24.1."""
    tick = np.arange(0, 1200, 0.1)
    level = np.where(tick % 24.1 < 21, 0.9, 0.2)
    window = level.reshape(-1, 50).mean(axis=1)
    held = np.repeat(window, 5)
    found = detect(1.7e9 + np.arange(held.size), {"gr_engine_active": held, "power": 50 + 200 * held})
    assert found.period_s == pytest.approx(24.1, rel=0.01)


@pytest.mark.parametrize("count", [3, 11, 20])
def test_too_few_samples_are_said_so(count: int) -> None:
    found = detect(1.7e9 + 30.0 * np.arange(count), {"power": np.where(np.arange(count) % 5, 200.0, 90.0)})
    assert (found.verdict, found.reason) == ("none", "too_few_samples")


def test_noise_has_no_cycle() -> None:
    values = np.random.default_rng(2).random(2000)
    found = detect(1.7e9 + 0.1 * np.arange(2000), {"sm_active": values})
    assert (found.verdict, found.reason, found.stretches) == ("none", "no_cycle", ())


def test_jitter_of_slow_readings_changes_nothing() -> None:
    trace = simulate_class("sparse", 3)
    interval = float(np.median(np.diff(trace.time)))
    even = trace.time[0] + interval * np.arange(trace.time.size)
    one, other = detect(trace.time, trace.metrics), detect(even, trace.metrics)
    assert one.period_s is not None
    assert other.period_s == pytest.approx(one.period_s, rel=0.01)
    assert one.stretches[0].epochs == len(one.epochs)
