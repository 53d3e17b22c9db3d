"""What may not be asked over HTTP is refused in one sentence: code, files, hosts, and what takes more than it may."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

pytest.importorskip("torch", reason="torch is not installed (extra torch)")
onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

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
        ({"auto_map": {"AutoModel": "m.Net"}}, "auto_map, which would run"),
        ({"trust_remote_code": True}, "trust_remote_code, which would run"),
        ({"num_hidden_layers": 100000}, "layers 100000, more than any model that is trained; give 1000 at most"),
        ({"hidden_size": 10**8, "head_dim": 8}, "hidden 100000000"),
        ({"vocab_size": 10**30}, "vocab_size="),
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, "hidden 64, layers 2, ffn 256 (experts: 2 x 128)"),
        ({"hidden_size": "64"}, "hidden_size=64 (input should be a valid integer)"),
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
        ({"gpu": "T4", "model": "BERT-base", "precision": "amp-fp8"}, "no training in FP8 was measured, so 'amp-fp8' is not"),
        ({"gpu": "T4", "model": "BERT-base", "graph": "onnx"}, "graph is 'onnx'"),
        ({"gpu": "T4", "model": "BERT-base", "pp": 10**9}, "pp is 1000000000"),
        ({"gpu": "T4", "model": "BERT-base", "tensor_plan": "x.json"}, "tensor_plan is unknown"),
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
        ("convmeter", {}, "give either network"),
        ("occupancy", {"network": "lenet", "gpus": ["T4"], "model": "../x"}, "no model '../x' is configured"),
        ("occupancy", {"network": "lenet", "gpus": ["T4"], "batches": [2**30]}, "batches[0] is 1073741824"),
        ("occupancy", {"network": "lstm", "gpus": ["T4"], "hidden": 10**6}, "hidden is 1000000"),
        ("occupancy", {"network": "lenet", "onnx": "AAAA", "gpus": ["T4"]}, "give either"),
    ],
)
def test_other_questions_without_an_answer(client: TestClient, backend: str, question: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(client, backend, **question)


def onnx_model(**changes: Any) -> Any:
    weight = numpy_helper.from_array(np.zeros((8, 3, 3, 3), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="first", kernel_shape=[3, 3])
    graph = helper.make_graph(
        changes.get("nodes", [node]),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, changes.get("sides", [1, 3, 32, 32]))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [changes.get("weight", weight)],
    )
    graph.output[0].type.tensor_type.shape.SetInParent()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def elsewhere(*, flag: bool, location: str = "/etc/passwd") -> Any:
    """A weight whose values lie in another file; some writers forget to say so."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8, 3, 3, 3])
    tensor.external_data.add(key="location", value=location)
    if flag:
        tensor.data_location = TensorProto.EXTERNAL
    return tensor


def hidden_in_a_branch() -> Any:
    """External data in the constant of a branch of a branch."""
    graph: Any = None
    for _ in range(3):
        value = elsewhere(flag=True) if graph is None else numpy_helper.from_array(np.zeros(1, np.float32))
        nodes = [helper.make_node("Constant", [], ["k"], value=value)]
        if graph is not None:
            nodes.append(helper.make_node("If", ["x"], ["k2"], then_branch=graph, else_branch=graph))
        graph = helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("k", TensorProto.FLOAT, None)])
    return onnx_model(nodes=[helper.make_node("If", ["x"], ["y"], then_branch=graph, else_branch=graph)])


def nested(depth: int) -> Any:
    graph = helper.make_graph([], "leaf", [], [])
    for _ in range(depth):
        graph = helper.make_graph([helper.make_node("If", ["x"], ["y"], then_branch=graph)], "branch", [], [])
    return onnx_model(nodes=list(graph.node))


HUGE = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40])
NEGATIVE = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-8, 3, 3, 3])


@pytest.mark.parametrize("backend", ["convmeter", "occupancy"])
@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: onnx_model(weight=elsewhere(flag=True)), "'w' of the onnx network is in another file"),
        (lambda: onnx_model(weight=elsewhere(flag=False, location="../../x")), "'w' of the onnx network is in another file"),
        (hidden_in_a_branch, "is in another file"),
        (lambda: onnx_model(weight=HUGE), "elements; send one that fits a GPU"),
        (lambda: onnx_model(weight=NEGATIVE), "has a side of -8"),
        (lambda: onnx_model(sides=[1, 3, 2**45, 2**45]), "elements; send one that fits a GPU"),
        (lambda: nested(20), "nested more than 50 deep"),
        (lambda: onnx_model(nodes=[helper.make_node("Relu", ["x"], ["y"])] * 50_001), "more than 50000 nodes"),
        (lambda: onnx_model(nodes=[helper.make_node("Relu", ["z"], ["y"])]), "the onnx network"),
        (lambda: onnx_model(nodes=[]), "the onnx network"),
    ],
)
def test_onnx_that_is_not_taken(client: TestClient, backend: str, made: Callable[[], Any], sentence: str) -> None:
    more: dict[str, Any] = {"gpus": ["T4"]} if backend == "occupancy" else {"image_size": 32}
    text = base64.b64encode(made().SerializeToString()).decode()
    detail = refusal(client, backend, onnx=text, **more)
    assert sentence in detail and "/tmp" not in detail and "epochcast-onnx" not in detail


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("!!!!", "onnx is not base64"),
        (base64.b64encode(b"no protobuf at all").decode(), "onnx is not an ONNX file"),
        (base64.b64encode(b"\x08\x08").decode(), "the onnx network"),
        (base64.b64encode(onnx_model().SerializeToString()[:-40]).decode(), "onnx"),
        ("é" * 8, "onnx is not base64"),
    ],
)
def test_onnx_that_is_none(client: TestClient, text: str, sentence: str) -> None:
    assert sentence in refusal(client, "occupancy", onnx=text, gpus=["T4"])
