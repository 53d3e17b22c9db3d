"""The graph of a network is the same from torch and from its ONNX file, but for what an export is known to change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")
pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from torch import nn  # noqa: E402

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_onnx import graph_of_onnx  # noqa: E402


class Convolutional(nn.Module):
    """A residual block between a stem and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.upwards = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        return self.head(self.upwards(x + torch.nn.functional.gelu(self.depthwise(x))))


class Tokens(nn.Module):
    """An embedding and two layers of a transformer with its attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(99, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.inward = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.outward = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens)
        for norm, inward, outward in zip(self.norms, self.inward, self.outward, strict=True):
            query, key, value = inward(norm(x)).chunk(3, -1)
            query, key, value = (one.unflatten(-1, (2, 8)).transpose(1, 2) for one in (query, key, value))
            mixed = torch.softmax(query @ key.transpose(-2, -1) * 0.35, -1) @ value
            x = x + outward(mixed.transpose(1, 2).flatten(2))
        return x[:, 0]


def both(
    network: nn.Module, inputs: Any, tmp_path: Path, batch: int, **sizes: int
) -> tuple[ComputationGraph, ComputationGraph]:
    path = tmp_path / "net.onnx"
    torch.manual_seed(0)
    for parameter in network.parameters():  # equal ones would be written once
        nn.init.uniform_(parameter)
    kept = {"training": torch.onnx.TrainingMode.TRAINING} if isinstance(network, Convolutional) else {}
    axes = {"x": {0: "batch", **({1: "sequence"} if sizes else {})}}
    torch.onnx.export(
        network, (inputs,), str(path), dynamo=False, input_names=["x"], dynamic_axes=axes, opset_version=18, **kept
    )
    from_file = graph_of_onnx(path, NetworkConfiguration("net.onnx", batch, **sizes))
    return from_file, graph_of_module(network, (inputs,), "net", len(inputs)).at_batch(batch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("network", "inputs", "sizes"),
    [(Convolutional(), torch.zeros(2, 3, 33, 33), {}), (Tokens(), torch.zeros(2, 7, dtype=torch.long), {"sequence": 7})],
    ids=["convolutions", "tokens"],
)
def test_the_same_graph(network: nn.Module, inputs: Any, sizes: dict[str, int], tmp_path: Path) -> None:
    from_file, from_torch = both(network, inputs, tmp_path, batch=6, **sizes)
    assert from_file.words == from_torch.words
    np.testing.assert_allclose(from_file.sizes, from_torch.sizes)
    for name in ("hyper_parameters", "edges", "edge_types", "edge_elements"):
        np.testing.assert_array_equal(getattr(from_file, name), getattr(from_torch, name))
