"""``epochcast fit regressor --onto``: measure a few workloads on a GPU that the model has not seen."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.regressor import LatencyPredictor, Profile
from epochcast.regressor.profile_json import profile_json

SLOWER = 1.25  # the made-up L4 takes this much longer than the shipped model expects


def _profile(workload: str, gpu: str, busy: float, epoch_s: float) -> Profile:
    def statistics(mean: float, spread: float) -> dict[str, float]:
        low, high = mean - spread, mean + spread
        return {"mean": mean, "std": spread / 2, "min": low, "p25": mean, "p50": mean, "p75": mean, "max": high}

    metrics = {
        "gpu_utilization": statistics(busy, 0.05),
        "memory_utilization": statistics(busy / 2, 0.05),
        "power": statistics(30 + 40 * busy, 5),
        "sm_clock": statistics(1.4e9, 1e7),
    }
    return Profile(gpu, epoch_s, "epoch", 5, metrics, "nvml", True, workload=workload)


@pytest.fixture(scope="module")
def shipped() -> LatencyPredictor:
    return LatencyPredictor.load()


@pytest.fixture
def measured(tmp_path: Path, shipped: LatencyPredictor) -> Callable[..., Path]:
    """A folder of profiles of some workloads on the T4 and, slower than the model expects, on the L4."""

    def write(workloads: int, gpus: tuple[str, ...] = ("T4", "L4")) -> Path:
        folder = tmp_path / f"{'-'.join(gpus)}-{workloads}"
        folder.mkdir()
        for number, busy in enumerate(np.linspace(0.2, 0.9, workloads)):
            here = _profile(f"w{number}", "T4", float(busy), 10.0)
            (expected,) = shipped.predict(here, ["L4"])
            there = _profile(f"w{number}", "L4", float(busy) * 0.9, 10.0 * expected.ratio * SLOWER)
            for profile in (here, there):
                if profile.gpu in gpus:
                    (folder / f"{number}-{profile.gpu}.json").write_text(json.dumps(profile_json(profile)))
        return folder

    return write


def test_calibrate_moves_predictions_to_what_was_measured(
    measured: Callable[..., Path], shipped: LatencyPredictor, tmp_path: Path, answer: Callable[..., Any]
) -> None:
    out = tmp_path / "model"
    fitted = answer("fit", "regressor", "--onto", "default", "--data", measured(10), "--out", out)
    assert (fitted["rows"], fitted["corrected"]) == (20, {"L4": 10})
    new = tmp_path / "new.json"
    new.write_text(json.dumps(profile_json(_profile("new", "T4", 0.62, 8.0))))
    expected = SLOWER * shipped.predict(_profile("new", "T4", 0.62, 8.0), ["L4"])[0].ratio
    (predicted,) = answer("predict", new, "--target", "L4", "--model", out)["predictions"]
    assert predicted["ratio"] == pytest.approx(expected, rel=0.05)
    assert predicted["route"] == "calibrated"
    assert predicted["low"] < predicted["seconds"] < predicted["high"]


@pytest.mark.parametrize(
    ("workloads", "gpus", "says"),
    [
        (2, ("T4", "L4"), "2 workloads"),
        (4, ("L4",), "no workload of the 4 profiles ran on two GPUs"),
    ],
)
def test_measurements_that_calibrate_nothing_end_in_one_sentence(
    measured: Callable[..., Path],
    workloads: int,
    gpus: tuple[str, ...],
    says: str,
    tmp_path: Path,
    refusal: Callable[..., str],
) -> None:
    assert says in refusal(
        "fit", "regressor", "--onto", "default", "--data", measured(workloads, gpus), "--out", tmp_path / "model"
    )
    assert not (tmp_path / "model").exists()
