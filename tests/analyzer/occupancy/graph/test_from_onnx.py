"""Graphs from ONNX files made by hand: what is read, and every way in which a file can be wrong; torch is not needed."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_onnx import graph_of_onnx  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph_of import graph_of  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402

Shape = Sequence[int | str]


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def model(nodes: Sequence[Any], given: dict[str, Shape], held: Sequence[Any] = (), kind: int = TensorProto.FLOAT) -> Any:
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, shape in given.items()]
    last = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in nodes[-1].output]
    graph = helper.make_graph(list(nodes), "net", inputs, last, list(held))
    for one in graph.output:
        one.type.tensor_type.shape.SetInParent()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)])


def node(operator: str, given: str, answered: str = "", **attributes: Any) -> Any:
    names = ["" if one == "-" else one for one in given.split()]
    return helper.make_node(operator, names, (answered or f"{operator.lower()}_{names[0]}").split(), **attributes)


def saved(tmp_path: Path, made: Any) -> str:
    path = tmp_path / "net.onnx"
    onnx.save(made, str(path))
    return str(path)


def read(tmp_path: Path, made: Any, batch: int = 4, **sizes: Any) -> ComputationGraph:
    return graph_of_onnx(saved(tmp_path, made), NetworkConfiguration("net.onnx", batch, **sizes))


def test_a_convolution_and_what_follows(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], group=2),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f dense bias", "y", transB=1),
    ]
    held = [weight("w", 8, 2, 3, 3), weight("b", 8), weight("dense", 5, 8), weight("bias", 5)]
    graph = read(tmp_path, model(nodes, {"x": ["batch", 4, 10, 12]}, held), batch=3)
    assert graph.words == ("convolution", "relu", "average_pool", "linear")
    assert graph.column("written").tolist() == [3 * 8 * 5 * 6, 3 * 8 * 5 * 6, 3 * 8, 3 * 5]
    assert graph.column("flops").tolist() == [2 * 3 * 8 * 30 * 18, 3 * 8 * 30, 3 * 8 * 30, 2 * 3 * 5 * 8]
    assert graph.column("weights").tolist() == [8 * 18 + 8, 0, 0, 45]
    assert graph.column("groups").tolist() == [2, 0, 0, 0]
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert graph.weight_elements == 8 * 18 + 8 + 45
    assert graph.name == "net.onnx"


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(tmp_path: Path, operator: str, gates: int) -> None:
    nodes = [node(operator, "x w r", "y h", hidden_size=16, direction="bidirectional")]
    held = [weight("w", 2, gates * 16, 8), weight("r", 2, gates * 16, 16)]
    graph = read(tmp_path, model(nodes, {"x": [5, "batch", 8]}, held), batch=3)
    assert graph.words == (operator.lower(),)
    assert graph.column("written").tolist() == [5 * 3 * 32]
    assert graph.column("flops").tolist() == [2 * 5 * 3 * 2 * gates * 16 * (8 + 16)]
    assert graph.column("rows").tolist() == [5]


def test_what_torch_runs_as_one_operator_is_one(tmp_path: Path) -> None:
    number = {
        name: numpy_helper.from_array(np.float32(value), name) for name, value in {"half": 0.5, "one": 1, "root": 1.414}.items()
    }
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m bias", "d"),
        node("Sigmoid", "d", "s"),
        node("Mul", "d s", "silu"),
        node("Div", "silu root", "g1"),
        node("Erf", "g1", "g2"),
        node("Add", "g2 one", "g3"),
        node("Mul", "silu g3", "g4"),
        node("Mul", "g4 half", "gelu"),
        node("ReduceMean", "gelu", "n1"),
        node("Sub", "gelu n1", "n2"),
        node("Pow", "n2 two", "n3"),
        node("ReduceMean", "n3", "n4"),
        node("Add", "n4 one", "n5"),
        node("Sqrt", "n5", "n6"),
        node("Div", "n2 n6", "n7"),
        node("Mul", "n7 scale", "n8"),
        node("Add", "n8 shift", "y"),
    ]
    held = [weight("w", 8, 6), *(weight(name, 6) for name in ("bias", "scale", "shift")), *number.values()]
    held.append(numpy_helper.from_array(np.float32(2), "two"))
    graph = read(tmp_path, model(nodes, {"x": ["batch", 8]}, held), batch=2)
    assert graph.words == ("linear", "silu", "gelu", "layer_norm")
    assert graph.column("weights").tolist() == [54, 0, 0, 12]
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]


def test_two_files_are_two_towers(tmp_path: Path) -> None:
    images = model([node("GlobalAveragePool", "x", "y")], {"x": ["batch", 3, "height", "width"]})
    texts = model([node("Gather", "table x", "y")], {"x": ["batch", "seq"]}, [weight("table", 99, 8)], TensorProto.INT64)
    for name, made in {"image": images, "text": texts}.items():
        onnx.save(made, str(tmp_path / f"{name}.onnx"))
    asked = NetworkConfiguration(f"{tmp_path}/image.onnx,{tmp_path}/text.onnx", 2, image_size=32, sequence=7)
    graph = graph_of(asked)
    assert graph.words == ("average_pool", "embedding")
    assert graph.edges.shape == (2, 0)
    assert graph.column("written").tolist() == [6, 2 * 7 * 8]
    with pytest.raises(InputError, match=r"no axis of the inputs of .* is its hidden, but hidden 5 was given"):
        graph_of(NetworkConfiguration(asked.network, 2, image_size=32, sequence=7, hidden=5))


def test_a_chain_of_thousands_of_nodes_is_read(tmp_path: Path) -> None:
    """Five times as many as Python's recursion goes deep."""
    names = [f"v{place}" for place in range(5_001)]
    kinds = ("Relu", "Sigmoid", "Tanh", "Exp")
    nodes = [helper.make_node(kinds[place % 4], [a], [b]) for place, (a, b) in enumerate(pairwise(names))]
    path = saved(tmp_path, model(nodes, {"v0": ["batch", 8]}))
    graph = graph_of_onnx(path, NetworkConfiguration(path, 2))
    assert len(graph) == 5_000
    assert graph.edges.shape == (2, 4_999)


def branches() -> Any:
    inner = helper.make_graph(
        [helper.make_node("Identity", ["r"], ["i"])], "b", [], [helper.make_tensor_value_info("i", 1, ["a", "b"])]
    )
    return model(
        [
            node("Relu", "x", "r"),
            node("ReduceMax", "r", "m", keepdims=0),
            node("Cast", "m", "c", to=TensorProto.BOOL),
            node("If", "c", "y", then_branch=inner, else_branch=inner),
        ],
        {"x": ["batch", 8]},
    )


IMAGE = {"x": ["batch", 3, "height", "width"]}
REFUSED: dict[str, tuple[Any, dict[str, int], str]] = {
    "control flow": (branches(), {}, r"has control flow \(the operator If\)"),
    "strange operator within": (
        model([node("Strange", "x", "s", domain="mine"), node("Relu", "s", "y")], {"x": ["batch", 8]}),
        {},
        r"the output size of the operator mine:Strange of '.*' is unknown; export the network without it",
    ),
    "open image": (
        model([node("Relu", "x")], IMAGE),
        {},
        r"leaves axis 2 \(height\) of its input 'x' open; give the image size",
    ),
    "open axis that nothing tells": (
        model([node("Relu", "x")], {"x": ["batch", "q"]}),
        {},
        r"leaves axis 1 \(q\) of its input 'x' open; export it with this axis fixed",
    ),
    "another size": (
        model([node("Relu", "x")], {"x": ["batch", 3, 64, 64]}),
        {"image_size": 32},
        r"is exported for image size 64, not 32; give that, or export it with this axis open",
    ),
    "shapes that clash": (
        model([node("MatMul", "x w", "y")], {"x": ["batch", 8]}, [weight("w", 7, 3)]),
        {},
        "cannot be followed at its operator MatMul",
    ),
    "no input": (model([node("RandomNormal", "", "y", shape=[2, 3])], {}), {}, "takes no tensor"),
    "views alone": (model([node("Identity", "x", "y")], {"x": ["batch", 8]}), {}, "has no operator that computes something"),
    "cycle": (
        model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Exp", "b", "y")], {"x": ["batch", 8]}),
        {},
        "is no ONNX file that can be read: .*topologically sorted",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, case: str) -> None:
    made, sizes, said = REFUSED[case]
    for one in made.graph.node:
        if one.op_type == "RandomNormal":
            del one.input[:]
    with pytest.raises(InputError, match=said) as raised:
        read(tmp_path, made, **sizes)
    assert "\n" not in str(raised.value)


def test_damaged_files(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, model([node("Relu", "x")], {"x": ["batch", 8]})))
    content = path.read_bytes()
    for damaged in (b"", b"no onnx at all" * 9, content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"is no ONNX file that can be read: .*; export the network again"):
            graph_of_onnx(path, NetworkConfiguration("net.onnx", 1))
    with pytest.raises(InputError, match=r"no such file: .*; give the path of an ONNX file"):
        graph_of_onnx(tmp_path / "missing.onnx", NetworkConfiguration("net.onnx", 1))


def test_weights_in_a_file_that_is_missing_are_not_needed(tmp_path: Path) -> None:
    made = model([node("MatMul", "x w", "y")], {"x": ["batch", 8]}, [weight("w", 8, 300)])
    path = tmp_path / "net.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="weights.bin", size_threshold=16)
    (tmp_path / "weights.bin").unlink()
    graph = graph_of_onnx(path, NetworkConfiguration("net.onnx", 2))
    assert (graph.words, graph.weight_elements) == (("linear",), 2400)
