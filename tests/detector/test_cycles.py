"""What the cycles of a job are: named by what happens at their boundaries, and by nothing else."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from epochcast.detector import Cycle, Detection, detect

Array = NDArray[np.float64]

STEP_S = 0.1
IDLE = {"gr_engine_active": 0.0, "sm_active": 0.0, "dram_active": 0.0, "pcie_tx": 2e6}
SAVE = {"gr_engine_active": 0.05, "sm_active": 0.02, "dram_active": 0.04, "pcie_tx": 2e9}
TRAIN = {"gr_engine_active": 0.98, "sm_active": 0.85, "dram_active": 0.6, "pcie_tx": 4e7}
VALIDATE = {"gr_engine_active": 0.95, "sm_active": 0.7, "dram_active": 0.35, "pcie_tx": 4e7}

Part = tuple[dict[str, float], float]


def trace(parts: list[Part], *, seed: int = 0, names: tuple[str, ...] = tuple(TRAIN)) -> tuple[Array, dict[str, Array]]:
    """A trace at 10 Hz of phases with their lengths [s], with some noise, between two rests of 10 s."""
    rng = np.random.default_rng(seed)
    parts = [(IDLE, 10.0), *parts, (IDLE, 10.0)]
    counts = [round(seconds / STEP_S) for _, seconds in parts]
    metrics = {}
    for name in names:
        level = np.repeat([phase[name] for phase, _ in parts], counts)
        metrics[name] = np.clip(level * (1 + 0.03 * rng.standard_normal(level.size)), 0, None)
        if name == "gr_engine_active":
            metrics[name] = metrics[name].clip(0, 1)
    return 1.7e9 + STEP_S * np.arange(1, sum(counts) + 1), metrics


def epochs(count: int, train_s: float, end: Callable[[int], list[Part]], seed: int = 0) -> list[Part]:
    """So many stretches of training [s, within some per cent], each with what comes after it."""
    rng = np.random.default_rng(seed)
    return [part for i in range(count) for part in [(TRAIN, train_s * rng.normal(1, 0.01)), *end(i)]]


def named(found: Detection) -> dict[str, Cycle]:
    """The cycles by their kinds, each of which may come once."""
    kinds = [cycle.kind for cycle in found.cycles]
    assert len(set(kinds)) == len(kinds), kinds
    assert [cycle.period_s for cycle in found.cycles] == sorted(cycle.period_s for cycle in found.cycles)
    return dict(zip(kinds, found.cycles, strict=True))


def test_a_validation_ends_an_epoch() -> None:
    found = detect(*trace(epochs(15, 20, lambda _: [(VALIDATE, 4)])))
    cycle = named(found)["epoch"]
    assert (found.unit, len(found.cycles)) == ("epoch", 1)
    assert cycle.period_s == pytest.approx(24, rel=0.02)
    assert "other work for 4" in cycle.evidence and "dram_active" in cycle.evidence


def test_a_rest_without_traffic_ends_an_epoch() -> None:
    found = detect(*trace(epochs(15, 20, lambda _: [(IDLE, 2)])))
    cycle = named(found)["epoch"]
    assert "the GPU rests" in cycle.evidence
    assert cycle.idle_share == pytest.approx(2 / 22 + 0.02 * 20 / 22, abs=0.01)
    assert cycle.boundary_idle_s == pytest.approx(2, abs=0.25)


def test_a_save_ends_a_checkpoint_and_the_unit_is_a_cycle() -> None:
    found = detect(*trace(epochs(15, 20, lambda _: [(SAVE, 3)])))
    cycle = named(found)["checkpoint"]
    assert (found.verdict, found.unit, found.period_s) == ("epochs", "cycle", pytest.approx(23, rel=0.02))
    assert "pcie_tx" in cycle.evidence
    assert cycle.boundary_idle_s == pytest.approx(3, abs=0.25)


def test_without_a_metric_of_traffic_a_rest_may_be_anything() -> None:
    time, metrics = trace(epochs(15, 20, lambda _: [(SAVE, 3)]))
    del metrics["pcie_tx"]
    found = detect(time, metrics)
    assert (found.unit, list(named(found))) == ("cycle", ["unknown"])
    assert "no metric shows whether it saves" in found.cycles[0].evidence


def test_epochs_within_checkpoints_are_the_answer() -> None:
    """A save after every third validation: what is priced is the epoch."""
    found = detect(*trace(epochs(24, 15, lambda i: [(VALIDATE, 3), *([(SAVE, 4.0)] if i % 3 == 2 else [])])))
    cycles = named(found)
    assert cycles.keys() == {"epoch", "checkpoint"}
    assert cycles["checkpoint"].period_s == pytest.approx(3 * 18 + 4, rel=0.03)
    assert (found.unit, found.period_s) == ("epoch", pytest.approx(18, rel=0.03))
    assert "3 in each checkpoint" in cycles["epoch"].evidence or "every 3" in cycles["checkpoint"].evidence


def test_evaluations_within_an_epoch() -> None:
    """Two short evaluations and a long one, with a rest, at the end."""
    parts = epochs(36, 10, lambda i: [(VALIDATE, 5.0), (IDLE, 1.5)] if i % 3 == 2 else [(VALIDATE, 2.0)])
    cycles = named(detect(*trace(parts)))
    assert cycles.keys() == {"evaluation", "epoch"}
    assert cycles["evaluation"].period_s == pytest.approx(12, rel=0.1)
    assert cycles["epoch"].period_s == pytest.approx(40.5, rel=0.02)


def test_short_rests_within_the_distance_of_evaluations_end_epochs() -> None:
    """An evaluation of 22 s after every fourth epoch: in seconds of work nothing else shows."""
    parts = epochs(16, 45, lambda i: [*([(VALIDATE, 22.0)] if i % 4 == 3 else []), (IDLE, 0.5)], seed=1)
    found = detect(*trace(parts))
    assert (found.unit, found.period_s) == ("epoch", pytest.approx(45.5, rel=0.03))
    assert named(found)["evaluation"].period_s == pytest.approx(204, rel=0.03)


def test_steps_within_an_epoch() -> None:
    rng = np.random.default_rng(3)
    step = [(TRAIN, 0.9), (VALIDATE, 0.5)]
    parts = [
        part
        for _ in range(10)
        for part in [*((p, s * rng.normal(1, 0.02)) for p, s in 15 * step), (VALIDATE, 3.0), (IDLE, 1.0)]
    ]
    cycles = named(detect(*trace(parts)))
    assert cycles["step"].period_s == pytest.approx(1.4, rel=0.05)
    assert cycles["epoch"].period_s == pytest.approx(25, rel=0.03)


def test_strict_short_cycles_are_steps_or_inference_or_epochs() -> None:
    found = detect(*trace([(TRAIN, 1.5), (VALIDATE, 0.6)] * 120))
    assert (found.verdict, found.unit, [cycle.kind for cycle in found.cycles]) == ("steps", "cycle", ["unknown"])


def test_kernels_that_spin_are_no_work() -> None:
    """GPUs that wait for a collective operation are fully used, and draw a quarter of their power."""
    time, metrics = trace(epochs(15, 20, lambda _: [(IDLE, 5)]), names=("gr_engine_active",))
    working = metrics["gr_engine_active"] > 0.5
    found = detect(time, {"gpu_utilization": np.full(time.size, 1.0), "power": np.where(working, 550.0, 150.0)})
    assert found.cycles[0].idle_share == pytest.approx(0.2, abs=0.02)


def test_no_answer_has_no_cycles() -> None:
    rng = np.random.default_rng(0)
    found = detect(1.7e9 + STEP_S * np.arange(3000), {"sm_active": rng.random(3000), "power": rng.random(3000)})
    assert (found.verdict, found.unit, found.cycles) == ("none", None, ())
