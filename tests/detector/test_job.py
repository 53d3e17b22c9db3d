"""One job on several GPUs: one answer, each GPU's own boundaries, and the odd ones named."""

import numpy as np
import pytest
from numpy.typing import NDArray

from epochcast.detector import InputError, detect, detect_job

Array = NDArray[np.float64]
Trace = tuple[Array, dict[str, Array]]


def gpu(seed: int, *, period_s: float = 20.0, late_s: float = 0.0, work: float = 1.0, start: float = 1.7e9) -> Trace:
    """A GPU that rests for the last tenth of each cycle, read every 0.1 s for 400 s."""
    rng = np.random.default_rng(seed)
    time = start + 0.1 * np.arange(1, 4001)
    phase = ((time - start - 20 - late_s) / period_s) % 1
    level = np.where((phase < 0.9) & (time > start + 20) & (time < start + 380), 0.9, 0.02) * work
    noisy = {name: np.clip(level * (1 + 0.05 * rng.standard_normal(4000)), 0, 1) for name in ("sm_active", "dram_active")}
    return time, noisy


def test_gpus_in_step_have_one_answer() -> None:
    found = detect_job([gpu(seed) for seed in range(4)])
    assert found.job is not None
    assert (found.job.verdict, found.job.period_s, found.odd) == ("epochs", pytest.approx(20, rel=0.01), {})
    assert [one.period_s for one in found.gpus] == pytest.approx([20] * 4, rel=0.01)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (gpu(9, period_s=13.0), "shows a cycle of 13 s"),
        (gpu(9, late_s=3.0), "begins its cycles 3 s after the others"),
        (gpu(9, work=0.01), "is idle"),
    ],
)
def test_the_odd_gpu_is_named(odd: Trace, reason: str) -> None:
    found = detect_job([gpu(0), gpu(1), odd, gpu(2)])
    assert found.job is not None
    assert found.job.period_s == pytest.approx(20, rel=0.02)
    assert found.odd.keys() == {2}
    assert found.odd[2].startswith(reason)


def test_two_gpus_that_disagree_have_no_answer() -> None:
    found = detect_job([gpu(0), gpu(1, period_s=13.0)])
    assert found.job is not None
    assert (found.job.verdict, found.job.reason) == ("none", "rival_cycles")
    assert found.odd.keys() == {0, 1}
    assert [one.period_s for one in found.gpus] == pytest.approx([20, 13], rel=0.02)


def test_of_two_gpus_the_later_lags() -> None:
    assert detect_job([gpu(0, late_s=2.5), gpu(1)]).odd.keys() == {0}


def test_noise_of_single_gpus_cancels() -> None:
    """Each GPU alone shows nothing, eight together do."""
    rng = np.random.default_rng(1)
    time, metrics = gpu(0)
    noisy = [
        (
            time,
            {
                name: np.clip(0.5 + 0.1 * (row - 0.5) + 0.15 * rng.standard_normal(row.size), 0, 1)
                for name, row in metrics.items()
            },
        )
        for _ in range(8)
    ]
    alone, together = detect_job(noisy[:1]).job, detect_job(noisy).job
    assert alone is not None and together is not None
    assert alone.confidence < together.confidence
    assert together.period_s == pytest.approx(20, rel=0.02)


def test_times_that_do_not_overlap_are_no_job() -> None:
    found = detect_job([gpu(0), gpu(1, start=1.7e9 + 5000)])
    assert found.job is None
    assert [one.period_s for one in found.gpus] == pytest.approx([20, 20], rel=0.02)


def test_a_save_that_others_wait_for() -> None:
    """One GPU rests on its host's account while the others spin: nobody reads traffic, but it looks like a checkpoint."""
    time, metrics = gpu(0)
    working = metrics["sm_active"] > 0.5

    def telemetry(utilisation: float, seed: int) -> Trace:
        noise = np.random.default_rng(seed).normal(0, 5, time.size)
        used = np.where(working, 0.95, utilisation)
        return time, {"gpu_utilization": used, "power": np.where(working, 550.0, 150.0) + noise}

    found = detect_job([telemetry(0.05, 0), *(telemetry(1.0, seed) for seed in range(1, 8))]).job
    assert found is not None
    assert (found.unit, [cycle.kind for cycle in found.cycles]) == ("cycle", ["checkpoint"])
    assert found.cycles[0].boundary_idle_s == pytest.approx(2, abs=0.4)
    assert "they wait for it" in found.cycles[0].evidence


def test_no_trace_is_refused() -> None:
    with pytest.raises(InputError, match="no trace"):
        detect_job([])


def stepping(seed: int, every: int) -> Trace:
    """A GPU of a job with steps of 0.9 s, of which only each ``every``-th is as strong there, read every 0.1 s for 120 s."""
    begins = 1.7e9 + np.cumsum(0.9 * np.random.default_rng(0).normal(1, 0.01, 150))
    rng, time = np.random.default_rng(seed), 1.7e9 + 0.1 * np.arange(1200)
    step = np.maximum(np.searchsorted(begins, time, side="right") - 1, 0)
    works = (time - begins[step]) % 0.9 < 0.54
    level = np.where(works, 0.9 - 0.5 * (step % every > 0), 0.2) + 0.02 * rng.standard_normal(1200)
    return time, {"sm_active": level, "dram_active": 0.7 * level}


@pytest.mark.parametrize("every", [(1, 1, 2, 3), (1, 2)])
def test_whole_multiples_of_a_step_are_one_cycle(every: tuple[int, ...]) -> None:
    traces = [stepping(seed, each) for seed, each in enumerate(every)]
    assert len({round(detect(*trace).period_s or 0.0, 1) for trace in traces}) > 1, "alone they differ"
    found = detect_job(traces)
    assert found.job is not None
    assert (found.job.verdict, found.odd) == ("steps", {})
    assert [one.period_s for one in found.gpus] == pytest.approx([found.job.period_s] * len(every), rel=0.01)
