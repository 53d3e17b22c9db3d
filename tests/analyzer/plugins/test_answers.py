"""The built-in backends answer their own examples, and as the command line does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from epochcast.analyzer.backends.convmeter.question import ConvMeterQuestion
from epochcast.analyzer.backends.distributed.question import DistributedQuestion
from epochcast.analyzer.backends.occupancy.backend import OccupancyQuestion
from epochcast.analyzer.cli import main
from epochcast.regressor import load_catalog
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.models import save_predictor
from lab.occupancy.training_jobs import read_training_jobs

from ..occupancy.made_trainings import trainings

pytest.importorskip("torch", reason="torch is not installed (extra torch)")

Serve = Callable[..., TestClient]

CONFIG: dict[str, Any] = DistributedQuestion.model_json_schema()["examples"][1]["config"]


@pytest.fixture(scope="module")
def client(serve: Serve, cpu_model: Path) -> TestClient:
    return serve({"convmeter": {"models": {"cpu": str(cpu_model)}}})


def ask(client: TestClient, backend: str, **question: Any) -> dict[str, Any]:
    answered = client.post(f"/api/v1/backends/{backend}", json=question)
    assert answered.status_code == 200, answered.text
    answer: dict[str, Any] = answered.json()
    return answer


@pytest.fixture
def told(answered: Callable[..., Any]) -> Callable[..., Any]:
    """What the command line prints."""
    return lambda backend, *arguments: answered("predict-model", backend, *arguments)


EXAMPLES = [
    (model.__name__.removesuffix("Question").lower(), example)
    for model in (DistributedQuestion, ConvMeterQuestion, OccupancyQuestion)
    for example in model.model_json_schema()["examples"]
]


@pytest.mark.parametrize(("backend", "question"), EXAMPLES)
def test_examples_are_answered(client: TestClient, backend: str, question: dict[str, Any]) -> None:
    shorter = {"sequence": 16} if "sequence" in question else {}  # each step is traced: 128 of them take five seconds
    answer = ask(client, backend, **question | shorter)
    known = client.get(f"/api/v1/backends/{backend}").json()["answer"]
    assert set(known["required"]) <= set(answer) <= set(known["properties"])


def test_rare_fields_are_asked_over_http_alone(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    of = {"model": "GPT-2-small", "gpu": "A100 SXM4 80GB", "dp": 2, "tp": 2, "pp": 2, "global_batch": 32, "precision": "fp16"}
    rare = {"layers_per_stage": [5, 7], "optimizer": "sgd", "attention": "eager", "master_weights": False, "overlap": True}
    job = ask(client, "distributed", **of, **rare)["job"]
    assert {name: job[name] for name in rare} == rare
    assert main(["predict-model", "distributed", "--optimizer", "sgd"]) == 2 and "--optimizer" in capsys.readouterr().err


def test_a_configuration_is_read_as_the_file_is(client: TestClient, told: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "llama.json").write_text(json.dumps(CONFIG))
    expected = told("distributed", "--model", str(tmp_path / "llama.json"), "--gpu", "T4")
    assert ask(client, "distributed", config=CONFIG, gpu="T4") == expected


def test_a_fitted_model_of_occupancy_is_asked_by_its_name(serve: Serve, told: Callable[..., Any], tmp_path: Path) -> None:
    fitted = tmp_path / "own"
    jobs = read_training_jobs([trainings(tmp_path / "trainings.csv")], load_catalog())
    save_predictor(fit_predictor(jobs), fitted)
    expected = told("occupancy", "--network", "alexnet", "--model", str(fitted))
    client = serve({"occupancy": {"models": {"own": str(fitted)}}})
    assert ask(client, "occupancy", network="alexnet", model="own") == expected
    assert expected["model"]["rows"]["sm_occupancy"] == 58
