"""``epochcast anchors`` and ``epochcast calibrate``: measure a few workloads on a GPU that the model has not seen."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.cli import main
from epochcast.regressor import Predictor, Profile

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
def shipped() -> Predictor:
    return Predictor.load()


@pytest.fixture
def measured(tmp_path: Path, shipped: Predictor) -> Callable[..., Path]:
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
                    (folder / f"{number}-{profile.gpu}.json").write_text(json.dumps(profile.to_json()))
        return folder

    return write


def _answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_anchors_names_workloads_with_seconds_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _answer(capsys, "anchors", "--gpu", "NVIDIA L4", "--k", "5")
    assert (answer["gpu"], answer["known"], len(answer["anchors"])) == ("L4", False, 5)
    assert {"workload", "group", "seconds", "reason"} <= set(answer["anchors"][0])
    assert answer["seconds"] == pytest.approx(sum(anchor["seconds"] for anchor in answer["anchors"]))
    more = _answer(capsys, "anchors", "--gpu", "L4", "--k", "20")
    assert more["anchors"][:5] == answer["anchors"]
    assert more["mape_by_anchors"]["20"] < more["mape_by_anchors"]["5"] < more["mape_by_anchors"]["0"]


def test_anchors_says_where_the_model_knows_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["anchors", "--gpu", "T4"]) == 0
    assert "the model has telemetry of the T4" in capsys.readouterr().out


def test_anchors_from_a_corpus_of_ones_own(measured: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    answer = _answer(capsys, "anchors", "--gpu", "H100 SXM5", "--k", "4", "--data", str(measured(7)))
    assert {anchor["workload"] for anchor in answer["anchors"]} <= {f"w{number}" for number in range(7)}
    assert len(answer["anchors"]) == 4


def test_calibrate_moves_predictions_to_what_was_measured(
    measured: Callable[..., Path], shipped: Predictor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    answer = _answer(capsys, "calibrate", "default", "--data", str(measured(10)), "--out", str(out))
    assert answer == {"rows": 20, "gpus": {"L4": 10}}
    new = tmp_path / "new.json"
    new.write_text(json.dumps(_profile("new", "T4", 0.62, 8.0).to_json()))
    expected = SLOWER * shipped.predict(_profile("new", "T4", 0.62, 8.0), ["L4"])[0].ratio
    (predicted,) = _answer(capsys, "predict", str(new), "--target", "L4", "--model", str(out))["predictions"]
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
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "model"
    assert main(["calibrate", "default", "--data", str(measured(workloads, gpus)), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpu", "V100"], "ambiguous"),
        (["--gpu", "no such card"], "unknown GPU"),
        (["--gpu", "L4", "--k", "2"], "--k"),
        (["--gpu", "L4", "--k", "5000"], "not 5000"),
        (["--gpu", "L4", "--model", "/nonexistent"], "no model"),
        (["--gpu", "L4", "--data", "/nonexistent"], "/nonexistent"),
    ],
)
def test_bad_questions_about_anchors_end_in_one_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["anchors", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
