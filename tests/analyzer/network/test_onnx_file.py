"""Networks from ONNX files are read as the modules that were exported, and every way in which a file can be wrong."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")
onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import nn  # noqa: E402

from epochcast.analyzer.backends.convmeter.counting import count  # noqa: E402
from epochcast.analyzer.backends.convmeter.metrics import metrics_of  # noqa: E402
from epochcast.analyzer.backends.network.onnx_file import read_onnx  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module  # noqa: E402
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, graph_of  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


class Images(nn.Module):
    """What ConvNets are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.upwards = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.dense = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = self.upwards(torch.cat([x, x + self.depthwise(x)], 1)[:, 4:12])
        x = torch.cat([x, x * x.mean((2, 3), keepdim=True)], 1)
        tokens = self.dense(x.flatten(2).transpose(1, 2))
        mixed = torch.softmax(tokens @ tokens.transpose(1, 2), -1) @ tokens
        return self.head(mixed.mean(1))


def export(network: nn.Module, inputs: Any, path: Path, axes: dict[int, str]) -> str:
    torch.manual_seed(0)
    for parameter in network.parameters():  # equal ones would be written once
        nn.init.uniform_(parameter)
    options: Any = {"input_names": ["x"], "dynamic_axes": {"x": axes}, "opset_version": 18, "dynamo": False}
    torch.onnx.export(network, (inputs,), str(path), training=torch.onnx.TrainingMode.TRAINING, **options)
    return str(path)


@pytest.mark.filterwarnings("ignore")
def test_the_graph_is_that_of_the_module(tmp_path: Path) -> None:
    images = torch.zeros(6, 3, 33, 33)
    from_file = graph_of(NetworkConfiguration(export(Images(), images, tmp_path / "net.onnx", {0: "batch"}), 6))
    from_torch = graph_of_module(Images(), (images,), "net", 6)
    assert from_file.words == from_torch.words
    np.testing.assert_allclose(from_file.sizes, from_torch.sizes)
    for name in ("hyper_parameters", "edges"):
        np.testing.assert_array_equal(getattr(from_file, name), getattr(from_torch, name))


@pytest.mark.filterwarnings("ignore")
def test_the_metrics_are_those_of_the_network_at_any_size_and_batch(tmp_path: Path) -> None:
    network = Images()

    def of_torch(size: int) -> dict[str, float]:
        return dict(count(network, (torch.empty(1, 3, size, size),), "net", size)[""])

    fixed = export(network, torch.zeros(4, 3, 32, 32), tmp_path / "fixed.onnx", {})
    assert metrics_of(fixed, 32) == of_torch(32)
    opened = export(network, torch.zeros(1, 3, 32, 32), tmp_path / "open.onnx", {0: "n", 2: "h", 3: "w"})
    assert metrics_of(opened, 64) == of_torch(64)
    with pytest.raises(InputError, match="exported for images of 32 x 32, not 64"):
        metrics_of(fixed, 64)


Shape = Sequence[int | str]
FLOAT = TensorProto.FLOAT


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def model(nodes: Sequence[Any], given: dict[str, Shape], held: Sequence[Any] = (), kind: int = FLOAT) -> Any:
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, shape in given.items()]
    last = [helper.make_tensor_value_info(name, FLOAT, None) for name in nodes[-1].output]
    graph = helper.make_graph(list(nodes), "net", inputs, last, list(held))
    for one in graph.output:
        one.type.tensor_type.shape.SetInParent()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)])


def node(operator: str, given: str, answered: str = "y", **attributes: Any) -> Any:
    return helper.make_node(operator, given.split(), answered.split(), **attributes)


def read(tmp_path: Path, made: Any, batch: int = 4, **sizes: int) -> ComputationGraph:
    path = str(tmp_path / "net.onnx")
    onnx.save(made, path)
    return graph_of(NetworkConfiguration(path, batch, **sizes))


def test_a_convolution_and_what_follows(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], group=2),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f dense bias", transB=1),
    ]
    held = [weight("w", 8, 2, 3, 3), weight("b", 8), weight("dense", 5, 8), weight("bias", 5)]
    graph = read(tmp_path, model(nodes, {"x": ["batch", 4, 10, 12]}, held), batch=3)
    assert graph.words == ("convolution", "relu", "average_pool", "linear")
    assert graph.column("written").tolist() == [3 * 8 * 5 * 6, 3 * 8 * 5 * 6, 3 * 8, 3 * 5]
    assert graph.column("flops").tolist() == [2 * 3 * 8 * 30 * 18, 3 * 8 * 30, 3 * 8 * 30, 2 * 3 * 5 * 8]
    assert graph.column("weights").tolist() == [8 * 18 + 8, 0, 0, 45]
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert graph.name == "net.onnx"


@pytest.mark.parametrize(
    ("nodes", "shape", "answer"),
    [
        ([("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})], (4, 9, 9), (4, 5, 5)),
        ([("AveragePool", {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]})], (4, 9, 9), (4, 9, 9)),
        ([("DepthToSpace", {"blocksize": 2})], (8, 3, 3), (2, 6, 6)),
        ([("Transpose", {"perm": [0, 2, 3, 1]}), ("Softmax", {"axis": 1})], (4, 3, 5), (3, 5, 4)),
        ([("ReduceMean", {"keepdims": 0}), ("Relu", {})], (4, 3, 5), ()),
        ([("ArgMax", {"axis": 1})], (4, 3, 5), (1, 3, 5)),
    ],
)
def test_sizes_are_those_of_onnx(
    nodes: list[tuple[str, dict[str, Any]]], shape: tuple[int, ...], answer: tuple[int, ...], tmp_path: Path
) -> None:
    names = ["x", *(f"v{place}" for place in range(1, len(nodes))), "y"]
    made = [node(kind, a, b, **settings) for (kind, settings), (a, b) in zip(nodes, pairwise(names), strict=True)]
    onnx.save(model(made, {"x": ["batch", *shape]}), str(tmp_path / "net.onnx"))
    network, inputs, batch = read_onnx(str(tmp_path / "net.onnx"), 0, 2)
    assert (batch, inputs[0].shape) == (2, (2, *shape))
    assert network(*inputs)[0].shape == ((2, *answer) if answer else ())


def test_slices_and_shapes_that_are_computed(tmp_path: Path) -> None:
    held = [
        numpy_helper.from_array(np.array(values, np.int64), name) for name, values in {"a": [-1], "b": [-9], "i": [1]}.items()
    ]
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Neg", "n", "m"), node("Slice", "x a b i a", "z")]
    nodes += [
        node("TopK", "z i", "r places", axis=1),
        node("Concat", "a i", "t", axis=0),
        node("Reshape", "r t", "q"),
        node("Relu", "q"),
    ]
    graph = read(tmp_path, model(nodes, {"x": ["batch", 8, 1, 1]}, held), batch=3)
    assert graph.words == ("copy", "arg_reduce", "relu")
    assert graph.column("written").tolist() == [24, 6, 3]


ROWS: dict[str, Shape] = {"x": ["batch", 8, 1, 8]}


def branches() -> Any:
    answer = helper.make_tensor_value_info("i", 1, ["a", "b"])
    inner = helper.make_graph([helper.make_node("Identity", ["r"], ["i"])], "b", [], [answer])
    nodes = [node("Relu", "x", "r"), node("ReduceMax", "r", "m", keepdims=0), node("Cast", "m", "c", to=TensorProto.BOOL)]
    return model([*nodes, node("If", "c", then_branch=inner, else_branch=inner)], ROWS)


REFUSED: dict[str, tuple[Any, dict[str, int], str]] = {
    "control flow": (branches(), {}, r"has control flow \(the operator If\)"),
    "strange operator": (
        model([node("Strange", "x", domain="mine")], ROWS),
        {},
        "holds the operator mine:Strange, which is not known; export the network without it",
    ),
    "sizes that depend on values": (
        model([node("Cast", "x", "i", to=7), node("Expand", "x i")], ROWS),
        {},
        "cannot be followed at its operator Expand",
    ),
    "open image": (
        model([node("Relu", "x")], {"x": ["batch", 3, "height", "width"]}),
        {},
        "leaves the size of its images open; give the image size",
    ),
    "no images": (model([node("Relu", "x")], {"x": ["batch", 8]}), {}, "does not take images .*; give others as package"),
    "another size": (
        model([node("Relu", "x")], {"x": ["batch", 3, 64, 64]}),
        {"image_size": 32},
        "is exported for images of 64 x 64, not 32; give that, or export it with these axes open",
    ),
    "shapes that clash": (
        model([node("MatMul", "x w")], ROWS, [weight("w", 7, 3)]),
        {},
        "cannot be followed at its operator MatMul",
    ),
    "no input": (model([helper.make_node("RandomNormal", [], ["y"], shape=[2, 3])], {}), {}, "does not take images"),
    "views alone": (model([node("Identity", "x")], ROWS), {}, "has no operator that computes something"),
    "cycle": (
        model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Exp", "b")], ROWS),
        {},
        "cannot be followed at its operator Add",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, case: str) -> None:
    made, sizes, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as raised:
        read(tmp_path, made, **sizes)
    assert "\n" not in str(raised.value)


def test_damaged_and_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    content = model([node("Relu", "x")], ROWS).SerializeToString()
    for damaged in (b"", b"no onnx at all" * 9, content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"is no ONNX file that can be read: .*; export the network again"):
            read_onnx(str(path), 0)
    with pytest.raises(InputError, match=r"no such file: .*; give the path of an ONNX file"):
        metrics_of(str(tmp_path / "missing.onnx"), 32)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"\.\[onnx\]"):
        metrics_of(str(path), 32)


def test_weights_in_a_file_that_is_missing_are_not_needed(tmp_path: Path) -> None:
    made = model([node("MatMul", "x w")], ROWS, [weight("w", 8, 300)])
    path = tmp_path / "net.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="weights.bin", size_threshold=16)
    (tmp_path / "weights.bin").unlink()
    graph = graph_of(NetworkConfiguration(str(path), 2))
    assert graph.words == ("linear",)
