"""The tracker's choice: its confidence, epochs before steps, two jobs, two clocks."""

import numpy as np
import pytest

from epochcast.detector import detect
from lab.simulator import simulate, simulate_class

FOUR = ("dram_active", "sm_active", "pcie_rx", "power")


def test_an_epoch_is_preferred_to_its_steps() -> None:
    """Even steps of 1.2 s, and an evaluation after every 50 of them: three epochs of an hour are less sure than 9000 steps."""
    rng = np.random.default_rng(5)
    step = np.repeat([0.9, 0.3], [10, 2])
    epoch = np.concatenate([np.tile(step, 50), np.full(40, 0.5)])
    level = np.concatenate([np.zeros(50), np.tile(epoch, 6), np.zeros(50)]) + rng.normal(0, 0.02, 6 * epoch.size + 100)
    found = detect(1.7e9 + 0.1 * np.arange(level.size), {"sm_active": level.clip(0, 1)})
    assert (found.verdict, found.period_s) == ("epochs", pytest.approx(64, rel=0.05))


def test_steps_that_fit_by_chance_do_not_hide_the_epochs() -> None:
    """Nine steps and a bit passed for nine steps: the answer was two epochs."""
    trace = simulate_class("checkpoints", 52000)
    found = detect(trace.time, trace.metrics)
    assert found.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.05)


def test_two_jobs_are_told_apart() -> None:
    """In a third of six traces at least, the shorter first: once that is so, the rest need not be asked."""
    found = 0
    for seed in (0, 4, 3, 1, 5, 2):
        trace = simulate_class("two_jobs", seed)
        answer = detect(trace.time, {name: trace.metrics[name] for name in FOUR}, abstain_below=0.0)
        truths = [float(np.median(np.diff(starts))) for starts in (trace.epoch_starts, trace.epoch_starts2)]
        jobs = [job.period_s for job in answer.jobs]
        found += all(any(abs(job / true - 1) < 0.05 for job in jobs) for true in truths)
        if found == 2:
            return
    pytest.fail(f"both jobs of {found} traces")


def test_epochs_that_are_even_in_work_only_are_found_on_the_wall_clock_too() -> None:
    """Loaded by others, the same steps take up to three times as long; the wall clock was requested."""
    rng = np.random.default_rng(3)
    levels: list[np.ndarray] = []
    for _ in range(12):
        speed = rng.uniform(0.35, 1.0)
        train, validate = round(120 / speed), round(20 / speed)
        levels += [np.full(train, 0.9 * speed), np.full(validate, 0.5 * speed), np.zeros(3)]
    sm = np.concatenate([np.zeros(60), *levels, np.zeros(60)])
    memory = np.concatenate(
        [np.zeros(60), *[np.full(block.size, 0.3 * (i % 3 == 1)) for i, block in enumerate(levels)], np.zeros(60)]
    )
    sm = np.clip(sm + rng.normal(0, 0.01, sm.size), 0, 1)
    found = detect(1.7e9 + 0.1 * np.arange(sm.size), {"sm_active": sm, "tensor_active": memory})
    assert (found.clock, found.verdict, found.period_work) == ("wall", "epochs", None)
    assert 11 <= len(found.epochs) <= 13


def test_a_job_that_was_stopped_is_found_again_where_it_resumes() -> None:
    trace = simulate_class("resumed", 3)
    found = detect(trace.time, {name: trace.metrics[name] for name in FOUR})
    starts = np.array([epoch.start for epoch in found.epochs])
    longest = int(np.argmax(np.diff(trace.epoch_starts)))  # the pause between both parts
    parts = trace.epoch_starts[: longest + 1], trace.epoch_starts[longest + 1 :]
    assert all(np.any((starts >= part[0] - 1) & (starts <= part[-1] + 1)) for part in parts)
    assert found.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.05)


def test_metrics_that_lag_or_move_when_the_kernel_likes_do_not_count_beside_prompt_ones() -> None:
    trace = simulate(2, epochs=12, epoch_s=15.0)
    metrics = {name: trace.metrics[name] for name in FOUR}
    flusher = np.where(np.arange(trace.time.size) % 50 < 2, 1e8, 0.0)  # every 5 s
    slow = np.where(np.arange(trace.time.size) % 10 == 0, trace.metrics["sm_active"], np.nan)  # a second late
    disks = {"disk_write": flusher, "disk_read": np.roll(flusher, 7)}
    assert detect(trace.time, {**metrics, **disks, "slow": slow}) == detect(trace.time, metrics)


@pytest.mark.parametrize("pause_s", [5.0, 20.0])
def test_a_device_that_rests_between_epochs_is_still_at_one_job(pause_s: float) -> None:
    """An upload or an evaluation on the CPU: the device idles, and each epoch would be a stretch of its own."""
    epoch = np.concatenate([np.full(1200, 0.8), np.zeros(round(10 * pause_s))])
    level = np.concatenate([np.zeros(100), np.tile(epoch, 10), np.zeros(100)])
    level = np.clip(level + np.random.default_rng(0).normal(0, 0.02, level.size), 0, 1)
    found = detect(1.7e9 + 0.1 * np.arange(level.size), {"sm_active": level, "power": 50 + 200 * level})
    assert found.verdict == "epochs"
    assert found.period_s == pytest.approx(120 + pause_s, rel=0.02)
