"""``python -m lab.measure``: operators timed here, and figures of a training from what an agent sampled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.operator_time.corpus import read_corpus
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.regressor import load_catalog
from lab.distributed import collection
from lab.occupancy.measurement.collection import figures
from lab.occupancy.measurement.training_run import train

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = "gpt2:hidden=16,layers=1,heads=2,vocab=32,positions=8"


def test_operators_into_a_corpus_that_is_continued(
    tmp_path: Path, lab_answer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "_MOST_FLOPS", {"cpu": 1e6})  # a millisecond at most
    monkeypatch.setattr(collection, "_MOST_BYTES", {"cpu": 1e5})
    path = tmp_path / "operators.csv"
    asked = ("operators", "--device", "cpu", "--model", MODEL, "--precision", "fp32", "--budget", "0", "--out", path)
    first, second = (lab_answer("measure", *asked) for _ in range(2))
    assert first["new"] == first["rows"] > 0 and second["rows"] == first["rows"] + second["new"]
    corpus = read_corpus(path, load_catalog())
    assert len(corpus) == second["rows"] and (corpus["seconds"] > 0).all()


def test_figures_of_a_training_are_of_its_steps_alone() -> None:
    time = np.arange(0.0, 10.0)
    busy = np.where(time >= 5, 0.5, 0.0)
    frame = pd.DataFrame({"time": time, "sm_occupancy": busy, "gpu_utilization": busy, "memory_used": 2.0**30 * time})
    assert figures(frame, 5.0, 8.0) == {
        "peak_memory_mib": 8 * 1024,
        "gpu_utilization_percent": 50.0,
        "sm_active": -1.0,
        "sm_occupancy": 0.5,
    }


def test_a_network_trains_between_the_times_that_it_gives() -> None:
    answer = train(NetworkConfiguration("lenet", 2, image_size=32), "cpu", 0.0)
    assert answer["begin"] <= answer["end"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (f"--device cpu --model {MODEL} --precision fp12 --out x.csv", "unknown precision 'fp12'"),
        (f"--device cpu --model {MODEL} --precision fp32 --budget 0 --out nowhere/x.csv", "cannot write"),
    ],
)
def test_bad_input_is_one_sentence(
    lab: Callable[..., str], arguments: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in lab("measure", "operators", *arguments.split(), status=2)
