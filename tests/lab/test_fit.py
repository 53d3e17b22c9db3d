"""``python -m lab.fit``: what it writes, the product predicts with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor


def test_distributed_on_runs_and_operators(runs: Path, operators: Path, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    asked = ("--data", runs, "--operators", operators, "--out", tmp_path / "mine")
    answer = lab_answer("fit", "distributed", *asked)
    assert (answer["rows"], answer["operators"]["rows"]) == (12, 480)
    assert answer["in_sample_median_ape"] < 60
    model = DistributedModel.load(tmp_path / "mine")
    assert model.gpus == ("A100 SXM4 80GB",) and model.operators is not None


def test_occupancy_on_trainings(measured_trainings: Path, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    answer = lab_answer("fit", "occupancy", "--data", measured_trainings, "--out", tmp_path / "mine")
    assert answer["rows"] == {"sm_occupancy": 78, "sm_active": 79, "peak_memory": 79}
    assert OccupancyPredictor.load(tmp_path / "mine").fitted.rows == answer["rows"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("distributed --out x", "nothing to fit on"),
        ("occupancy --data missing.csv --out x", "no such file"),
        ("occupancy --data TABLE --out TABLE", "name a new folder"),
    ],
)
def test_bad_input_is_one_sentence(
    measured_trainings: Path,
    lab: Callable[..., str],
    arguments: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in lab("fit", *arguments.replace("TABLE", str(measured_trainings)).split(), status=2)
