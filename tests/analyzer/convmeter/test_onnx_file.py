"""Networks from ONNX files have the metrics that torch's have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")
onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from torch import nn  # noqa: E402

from epochcast.analyzer.backends.convmeter.counting import count  # noqa: E402
from epochcast.analyzer.backends.convmeter.network_metrics import metrics_of, top_block_metrics_of  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


class Block(nn.Module):
    """What ConvNets are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.upwards = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.dense = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = self.upwards(torch.cat([x, x + self.depthwise(x)], 1)[:, 4:12])
        x = torch.cat([x, x * x.mean((2, 3), keepdim=True)], 1)
        tokens = self.dense(x.flatten(2).transpose(1, 2))
        mixed = torch.softmax(tokens @ tokens.transpose(1, 2), -1) @ tokens
        return self.head(mixed.mean(1))


Export = Callable[..., str]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    def write(network: nn.Module, batch: int = 1, **options: Any) -> str:
        path = tmp_path / "net.onnx"
        torch.manual_seed(0)
        for parameter in network.parameters():  # biases that are all 0 would become one
            nn.init.uniform_(parameter)
        options = {"training": torch.onnx.TrainingMode.TRAINING, "input_names": ["x"], **options}
        torch.onnx.export(network, (torch.zeros(batch, 3, 32, 32),), str(path), dynamo=False, **options)
        return str(path)

    return write


def of_torch(network: nn.Module, size: int) -> dict[str, float]:
    return dict(count(network, (torch.empty(1, 3, size, size),), "net", size).values)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
class TestExported:
    def test_all_metrics_are_those_of_the_network(self, export: Export) -> None:
        network = Block()
        found = metrics_of(export(network), 32)
        assert (found.network, found.block, found.image_size) == ("net.onnx", "", 32)
        assert dict(found.values) == of_torch(network, 32)

    def test_open_axes_are_set_and_a_batch_is_divided_by(self, export: Export) -> None:
        network = Block()
        open_axes = export(network, dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}})
        assert dict(metrics_of(open_axes, 64).values) == of_torch(network, 64)
        assert dict(metrics_of(export(network, batch=4), 32).values) == of_torch(network, 32)

    def test_another_image_size_and_blocks_are_refused(self, export: Export) -> None:
        path = export(nn.Conv2d(3, 4, 3))
        with pytest.raises(InputError, match="exported for images of 32 x 32 pixels, not 64"):
            metrics_of(path, 64)
        with pytest.raises(InputError, match="does not name the blocks"):
            metrics_of(path, 32, "layer1.0")
        with pytest.raises(InputError, match="does not name the blocks"):
            top_block_metrics_of(path, 32)


def graph_of(*nodes: Any, **attributes: Any) -> Any:
    image = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, "h", "w"])
    answer = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b", "c", "d"])
    return onnx.helper.make_graph(list(nodes), "net", [image], [answer], **attributes)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([("NonZero", ["x"], ["i"]), ("Cast", ["i"], ["f"]), ("Relu", ["f"], ["y"])], "depends on values"),
        ([("Einsum", ["x", "x"], ["y"])], "Einsum, whose work cannot be counted"),
        ([("Gemm", ["x", "x"], ["y"])], "cannot be followed at its operator Gemm .*; give other sizes"),
    ],
)
def test_graphs_that_cannot_be_counted_are_refused_in_one_sentence(nodes: list[Any], said: str, tmp_path: Path) -> None:
    options = {"Cast": {"to": 1}, "Einsum": {"equation": "abcd,abcd->ab"}}
    graph = graph_of(*(onnx.helper.make_node(kind, *sides, **options.get(kind, {})) for kind, *sides in nodes))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=said) as refused:
        metrics_of(str(path), 32)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_or_not_onnx_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such file"):
        metrics_of("absent.onnx", 32)
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(InputError, match="no ONNX file that can be read"):
        metrics_of(str(tmp_path / "text.onnx"), 32)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"\.\[onnx\]"):
        metrics_of("net.onnx", 32)
