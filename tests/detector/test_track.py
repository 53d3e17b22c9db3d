"""The tracker on simulated jobs of known epochs, and on recorded CPU training runs."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from epochcast.detector import Detection, detect
from epochcast.detector.labels import Labels
from lab.evaluate.detection import score_trace
from lab.simulator import SimulatedTrace, simulate

FOUR = ("dram_active", "sm_active", "pcie_rx", "power")


@cache
def without_training(kind: str, seed: int) -> tuple[SimulatedTrace, Detection]:
    trace = simulate(seed, kind=kind)
    return trace, detect(trace.time, trace.metrics)


def score(trace: SimulatedTrace, found: Detection) -> tuple[float, float]:
    row = score_trace("simulated", found, Labels.from_json(trace.labels()), trace.time, trace.metrics)
    assert row.error is not None
    assert row.boundary_f1 is not None
    return row.error, row.boundary_f1


@pytest.mark.parametrize(
    ("epochs", "epoch_s"),
    [
        *((4, 20.0), (5, 20.0), (13, 8.0), (40, 6.0), (100, 5.0), (6, 120.0)),
        *(pytest.param(*between, marks=pytest.mark.soak) for between in ((8, 12.0), (10, 20.0), (20, 15.0))),
    ],
)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_finds_epochs_of_uncropped_traces(epochs: int, epoch_s: float, seed: int) -> None:
    trace = simulate(seed, epochs=epochs, epoch_s=epoch_s, validation_s=0.1 * epoch_s, gap_s=min(0.5, 0.05 * epoch_s))
    found = detect(trace.time, {name: trace.metrics[name] for name in FOUR}, abstain_below=0.0, thorough=False)
    error, f1 = score(trace, found)
    assert found.verdict == "epochs"
    assert error < 5
    assert f1 >= 0.9
    assert found.confidence >= 0.6


@pytest.mark.parametrize("seed", [2, 3])
def test_survives_missing_samples_jitter_and_a_hole(seed: int) -> None:
    trace = simulate(seed, epochs=12, epoch_s=15.0)
    rng = np.random.default_rng(seed)
    kept = rng.random(trace.time.size) > 0.1
    kept[600:640] = False
    time = (trace.time + rng.uniform(-0.03, 0.03, trace.time.size))[kept]
    metrics = {name: trace.metrics[name][kept] for name in FOUR}
    error, f1 = score(trace, detect(time, metrics))
    assert error < 5
    assert f1 >= 0.85


def test_a_stray_sample_years_away_does_no_harm() -> None:
    trace = simulate(7, epochs=8, epoch_s=12.0)
    time = np.concatenate([[0.0], trace.time])
    metrics = {name: np.concatenate([[0.0], trace.metrics[name]]) for name in FOUR}
    found = detect(time, metrics)
    assert found.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.05)


def test_uses_all_metrics_even_slow_and_useless_ones() -> None:
    trace = simulate(4, epochs=10, epoch_s=12.0)
    metrics = {**trace.metrics, "flat": np.ones(trace.time.size), "noise": np.random.default_rng(0).random(trace.time.size)}
    error, f1 = score(trace, detect(trace.time, metrics))
    assert error < 5
    assert f1 >= 0.9


def test_sees_one_epoch_where_a_checkpoint_falls_on_every_third() -> None:
    trace = simulate(5, epochs=24, epoch_s=15.0, checkpoint_every=3, checkpoint_s=1.0)
    found = detect(trace.time, {name: trace.metrics[name] for name in FOUR})
    assert score(trace, found)[0] < 5


@pytest.mark.parametrize(("step_s", "period_s", "verdict"), [(1.0, 20.0, "epochs"), (0.5, 10.0, "epochs"), (0.1, 2.0, "steps")])
def test_many_perfectly_even_cycles_are_not_taken_for_one(step_s: float, period_s: float, verdict: str) -> None:
    """Of 3000 samples in cycles of exactly 20, one in 6.55 cycles was answered, with confidence 0.92."""
    index = np.arange(3000)
    level = np.where(index % 20 < 17, 0.8, 0.3) + np.random.default_rng(1).normal(0, 0.02, index.size)
    found = detect(step_s * index, {"gpu_utilization": level})
    assert (found.verdict, found.period_s) == (verdict, pytest.approx(period_s, rel=0.01))


@pytest.mark.parametrize("kind", ["serving", "idle"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
def test_abstains_without_training(kind: str, seed: int) -> None:
    _, found = without_training(kind, seed)
    assert (found.verdict, found.period_s, found.epochs) == ("none", None, ())
    assert found.confidence < 0.6


def test_diagnostics_stay_when_it_abstains() -> None:
    _, found = without_training("serving", 0)
    assert found.scores["candidate_period"].shape == found.scores["candidate_quality"].shape != (0,)


def recorded(run: tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]) -> tuple[Detection, float | None]:
    time, metrics, labels = run
    found = detect(time, metrics)
    return found, score_trace("recorded", found, Labels.from_json(labels), time, metrics).error


@pytest.mark.parametrize("run", ["r2", "r4"])
def test_a_short_cycle_in_a_hosts_counters_is_nobodys(cpu_training: dict[str, Any], run: str) -> None:
    """Daemons and the kernel make some of 0.3, 1 and 3 s: of five such answers two were the job's."""
    found, _ = recorded(cpu_training[run])
    assert (found.clock, found.verdict) == ("work", "none")


def test_recorded_inference_server_has_no_epochs(cpu_training: dict[str, Any]) -> None:
    found, _ = recorded(cpu_training["r9"])
    assert (found.verdict, found.period_s) == ("none", None)
