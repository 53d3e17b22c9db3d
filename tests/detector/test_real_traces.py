"""The tracker on telemetry of real GPUs with known epochs (`EPOCHCAST_SHARED`), whole and thinned."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochcast.detector import Detection, detect

GTX = [f"gtx970_1_{kind}_100_{run}" for kind in ("keras", "pytorch") for run in (0, 1, 10)]
GTX += [f"gtx970_4_keras_{epoch}_{run}" for epoch in (90, 100) for run in (0, 1, 2)]


@pytest.fixture(scope="session")
def answered(real_trace: Any) -> Callable[..., tuple[Detection, float]]:
    """What is found in every n-th sample, and the true period."""

    def answer(name: str, every: int = 1) -> tuple[Detection, float]:
        time, metrics, labels = real_trace(name)
        found = detect(time[::every], {column: values[::every] for column, values in metrics.items()})
        return found, float(np.median(np.diff(labels["epoch_starts"])))

    return answer


def right(found: Detection, true: float) -> bool:
    return found.period_s is not None and abs(found.period_s / true - 1) < 0.05


@pytest.mark.parametrize("gpu", range(0, 8, 2))
def test_a_period_that_changes_is_two_stretches_and_no_answer_for_the_whole(answered: Any, gpu: int) -> None:
    """Five cycles of 41 s, one of 52 s, then cycles of 79.5 s: one period of 79.9 s was answered, with confidence 0.95."""
    found, _ = answered(f"regimes/h100_ckpt100_gpu{gpu}")
    assert (found.verdict, found.period_s, found.reason) == ("none", None, "period_changes")
    assert [stretch.period_s for stretch in found.stretches] == pytest.approx([41.0, 79.5], rel=0.05)
    never, _ = answered(f"regimes/h100_ckpt500_gpu{gpu}")
    assert never.unit != "epoch"


@pytest.mark.parametrize("run", ["1it23vkb", "1ngznr7o", "2n19ssc3", "6wxknkhw"])
def test_the_cycle_of_evaluations_is_no_epoch(answered: Any, run: str) -> None:
    """An evaluation after every fourth epoch was sold as an epoch at 0.97."""
    found, true = answered(f"evaluations/wandb_boostcampaitech2_object-detection-level2-cv-11_{run}")
    assert found.period_s == pytest.approx(4.11 * true, rel=0.03)
    assert (found.unit, 4 in found.cycle.k_open) == ("cycle", True)


@pytest.mark.parametrize(("name", "unit"), [("t3_gpu0", "step"), ("t3_gpu5", "step"), ("i4_gpu1", "cycle")])
def test_steps_of_a_language_model_and_its_inference_are_no_epochs(real_trace: Any, name: str, unit: str) -> None:
    """52 optimiser steps of 5.8 s were "51 epochs at 0.99", bursts of generation "steps" at 0.99."""
    time, metrics, _ = real_trace(f"h100_dcgm/h100_dcgm_{name}")
    assert detect(time, metrics).unit == unit


def test_an_answer_survives_a_crop(real_trace: Any) -> None:
    """One trace was silent, right, or sure of 17 times the period by its first or last rows."""
    time, metrics, _ = real_trace("wandb_boostcampaitech2_object-detection-level2-cv-15_19s5w4br")
    for part in (slice(None), slice(1, None), slice(3, None), slice(None, -5)):
        found = detect(time[part], {name: values[part] for name, values in metrics.items()})
        assert (found.unit, found.period_s) == ("epoch", pytest.approx(997.5, rel=0.02))


@pytest.mark.parametrize("every", [4, 8])
def test_thinned_traces_have_the_same_period(answered: Any, real_trace: Any, every: int) -> None:
    wrong = {}
    for name in (*GTX[::3], "h100_ckpt1_gpu0", "h100_ckpt1_gpu5"):
        found, true = answered(name, every)
        time = real_trace(name)[0]
        if true >= 10 * every * np.median(np.diff(time)) and not right(found, true):
            wrong[name] = found
    assert not wrong
