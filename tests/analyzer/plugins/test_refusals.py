"""What may not be asked over HTTP is refused in one sentence: code, files, hosts, and what takes more than it may."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

pytest.importorskip("torch", reason="torch is not installed (extra torch)")

Serve = Callable[..., TestClient]

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


@pytest.fixture(scope="module")
def client(serve: Serve, cpu_model: Path) -> TestClient:
    return serve({"convmeter": {"models": {"cpu": str(cpu_model)}}})


def refusal(client: TestClient, backend: str, **question: Any) -> str:
    answered = client.post(
        f"/api/v1/backends/{backend}", content=json.dumps(question), headers={"content-type": "application/json"}
    )
    assert answered.status_code == 422, answered.text
    assert answered.headers["content-type"] == "application/problem+json"
    detail: str = answered.json()["detail"]
    assert detail and "\n" not in detail and "Traceback" not in detail and len(detail) < 600
    return detail


@pytest.mark.parametrize("backend", ["convmeter", "occupancy"])
def test_networks_are_names_and_nothing_else(client: TestClient, backend: str) -> None:
    code = ("os:system", "torchvision:os:system", "hf-hub:timm/resnet18", "local-dir:x", "https://example.org/net.onnx")
    files = ("../../etc/passwd", "/etc/passwd", "file.onnx", "a.ONNX", "resnet50,resnet18", "resnet50\n", "", "a..b")
    for network in (*code, *files):
        assert "network" in refusal(client, backend, network=network)
    more: dict[str, Any] = {"gpus": ["T4"]} if backend == "occupancy" else {"image_size": 100}
    assert "unknown network 'os.path'" in refusal(client, backend, network="os.path", **more)


def test_models_are_names_and_nothing_else(client: TestClient) -> None:
    for model in ("os:system", "config.json", "/etc/passwd", "gpt:hidden=8,layers=1,heads=1", "meta-llama/Llama-3"):
        assert f"unknown model {model!r}" in refusal(client, "distributed", model=model, gpu="T4")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_hidden_layers": 100000}, "layers 100000, more than any model that is trained; give 1000 at most"),
        ({"hidden_size": 10**8, "head_dim": 8}, "hidden_size 100000000"),
        ({"vocab_size": 10**30}, "vocab_size 1000"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, "mixture of experts"),
        ({"hidden_size": "64"}, "'hidden_size' expected int"),
        ({"rope_scaling": json.loads("[" * 300 + "]" * 300)}, "config is nested more than 20 deep"),
    ],
)
def test_configurations_that_are_not_taken(client: TestClient, changes: dict[str, Any], sentence: str) -> None:
    detail = refusal(client, "distributed", config={**LLAMA, **changes}, gpu="T4")
    assert sentence in detail and "package.module" not in detail


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"gpu": "T4"}, "give either model (a built-in name) or config"),
        ({"gpu": "T4", "model": "BERT-base", "config": LLAMA}, "give either"),
        ({"gpu": "V", "model": "BERT-base"}, "V"),
        ({"gpu": "T4", "model": "BERT-base", "global_batch": 2**24}, "micro-batches times stages"),
        ({"gpu": "T4", "model": "BERT-base", "precision": "amp-fp8"}, "precision is 'amp-fp8'"),
        ({"gpu": "T4", "model": "BERT-base", "recipe": "onnx"}, "recipe is 'onnx'"),
        ({"gpu": "T4", "model": "BERT-base", "pp": 10**9}, "pp is 1000000000"),
        ({"gpu": "T4", "model": "BERT-base", "links": "x.toml"}, "links is unknown"),
        ({"gpu": "T4", "model": "BERT-base", "dp": "8"}, "dp is '8'"),
    ],
)
def test_distributed_questions_without_an_answer(client: TestClient, question: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(client, "distributed", **question)


@pytest.mark.parametrize(
    ("backend", "question", "sentence"),
    [
        ("convmeter", {"network": "resnet50", "model": "/etc"}, "no model '/etc' is configured; name one of cpu"),
        ("convmeter", {"network": "resnet50", "image_size": 10**9}, "image_size is 1000000000"),
        ("convmeter", {"network": "resnet50", "batches": [1] * 65}, "batches is"),
        ("convmeter", {}, "network is missing"),
        ("occupancy", {"network": "lenet", "gpus": ["T4"], "model": "../x"}, "no model '../x' is configured"),
        ("occupancy", {"network": "lenet", "gpus": ["T4"], "batches": [2**30]}, "batches[0] is 1073741824"),
        ("occupancy", {"network": "lstm", "gpus": ["T4"], "sequence": 10**6}, "sequence is 1000000"),
        ("occupancy", {"network": "lenet", "onnx": "AAAA", "gpus": ["T4"]}, "onnx is unknown"),
    ],
)
def test_other_questions_without_an_answer(client: TestClient, backend: str, question: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(client, backend, **question)
