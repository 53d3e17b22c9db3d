"""The metrics of a network in an ONNX file, read with the onnx library; torch is not needed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ...csv_text import one_line
from ...errors import InputError
from ..onnx_model import load_onnx
from .metrics import PER_IMAGE, Layer, NetworkMetrics, convolution_kind, metrics_of_layers

_FREE = {
    *("Identity", "Dropout", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Split", "Slice", "Expand"),
}
"""What torch does by looking at the same memory in another way, and what vanishes."""

_OF_SIZES = {"Shape", "Size"}
"""Answers that no value of the image changes; nor does what is computed of them."""

_MOVING = {
    **dict.fromkeys(
        (
            *("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"),
            *("LpNormalization", "LRN", "ReduceL2"),
        ),
        "normalisation",
    ),
    **dict.fromkeys(
        (
            *("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"),
            *("ReduceMean", "ReduceSum", "ReduceMax"),
        ),
        "pooling",
    ),
    **dict.fromkeys(("Concat", "Tile", "DepthToSpace", "SpaceToDepth"), "concatenation"),
}
_UNKNOWN_WORK = {
    "If",
    "Loop",
    "Scan",
    "Einsum",
    "LSTM",
    "GRU",
    "RNN",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "DeformConv",
}
_STATISTICS = {"BatchNormalization": slice(3, 5)}
"""Inputs that are kept but not trained."""

_FLOATS = {1, 10, 11, 16}
"""FLOAT, FLOAT16, DOUBLE and BFLOAT16 of TensorProto."""


def count_onnx(path: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Count the network in a file for one image.

    Axes that the file leaves open are set: the batch to 1, an image's sides to ``image_size``. A dense layer's added bias and a
    SiLU's two operators count as the one that torch runs. Batch normalisations that the export folded into convolutions are
    not there and not counted: what is to be predicted for training is best exported with them.

    Args:
        path: of the file; weights that are kept outside it are not needed.
        image_size: side of the square image, pixels.
        block: must be empty, see :func:`refuse_blocks`.

    Raises:
        InputError: the onnx library is missing, the file is none or not whole, is for images of another size, has shapes that
            depend on values, or operators whose work cannot be counted; or nothing in it has FLOPs.
    """
    if block:
        refuse_blocks(path)
    read, weights, batch = _read(path, image_size)
    graph = _Graph(path, read, weights)
    layers = list(graph.layers())
    values = metrics_of_layers(layers) | {
        "weights": float(sum(graph.trained.values())),
        "parameter_tensors": float(len(graph.trained)),
    }
    if not values["flops"]:
        raise InputError(f"{path!r} has no convolution, dense layer or matrix product; give the file of a network")
    values |= {name: values[name] / batch for name in PER_IMAGE}
    return NetworkMetrics(Path(path).name, "", image_size, values)


def refuse_blocks(path: str) -> NoReturn:
    """Say why a file has no blocks."""
    raise InputError(
        f"{path!r} does not tell the blocks of its network; give the network by name or import path to predict them"
    )


class _Graph:
    """The nodes of a graph with the sizes of all that goes between them."""

    def __init__(self, path: str, graph: Any, weights: Sequence[Any]) -> None:
        self.path, self.nodes = path, list(graph.node)
        self.shapes: dict[str, tuple[int, ...]] = {}
        for info in (*graph.input, *graph.value_info, *graph.output):
            sides = info.type.tensor_type.shape.dim
            if info.type.tensor_type.HasField("shape") and all(side.HasField("dim_value") for side in sides):
                self.shapes[info.name] = tuple(int(side.dim_value) for side in sides)
        self.shapes |= {one.name: tuple(one.dims) for one in weights}
        kept = {name for node in self.nodes if node.op_type in _STATISTICS for name in node.input[_STATISTICS[node.op_type]]}
        self.trained = {
            one.name: math.prod(one.dims) for one in weights if one.data_type in _FLOATS and one.dims and one.name not in kept
        }
        for node in self.nodes:
            if node.op_type == "Identity" and node.input[0] in self.trained:  # exports keep one of weights that are equal
                self.trained[node.output[0]] = self.trained[node.input[0]]
        self.constants = {one.name for one in weights}
        self.maker = {name: node for node in self.nodes for name in node.output}
        self.users: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in node.input:
                self.users[name].append(node)

    def layers(self) -> Iterator[Layer]:
        for node in self.nodes:
            given = [name for name in node.input if name and name not in self.constants]
            if not given or node.op_type in _OF_SIZES:
                self.constants.update(node.output)
            elif node.op_type in _UNKNOWN_WORK:
                raise InputError(
                    f"{self.path!r} holds the operator {node.op_type}, whose work cannot be counted; export it without"
                )
            elif node.op_type not in _FREE and not self._fused(node):
                sigmoid = self._silu(node)
                yield self._layer(node, [name for name in given if sigmoid is None or name not in sigmoid.output])

    def _layer(self, node: Any, given: Sequence[str]) -> Layer:
        read, written = sum(map(self._elements, given)), self._elements(node.output[0])
        if node.op_type in ("Conv", "ConvTranspose"):
            return self._convolution(node, written)
        if node.op_type in ("MatMul", "Gemm"):
            return self._product(node, read, written)
        return Layer(_MOVING.get(node.op_type, "elementwise"), 0.0, read, written)

    def _convolution(self, node: Any, written: int) -> Layer:
        image, weight = (self._shape(name) for name in node.input[:2])
        groups = next((int(one.i) for one in node.attribute if one.name == "group"), 1)
        made = math.prod(image) if node.op_type == "ConvTranspose" else written
        flops = 2.0 * made * math.prod(weight[1:])
        kind = convolution_kind(math.prod(weight[2:]), groups, image[1] // groups)
        return Layer(kind, flops, math.prod(image), written, flops / (2 * written), node.input[1], math.prod(weight))

    def _product(self, node: Any, read: int, written: int) -> Layer:
        transposed = any(one.name == "transA" and one.i for one in node.attribute)
        products = self._shape(node.input[0])[0 if transposed else -1]
        weight = next((name for name in node.input[:2] if name in self.constants), None)
        if weight is None:
            return Layer("attention", 2.0 * products * written, read, written, products)
        return Layer("linear", 2.0 * products * written, read, written, products, weight, self._elements(weight))

    def _fused(self, node: Any) -> bool:
        """Whether this is the bias of a dense layer, or the sigmoid of a SiLU."""
        if node.op_type == "Sigmoid":
            return any(self._silu(user) is node for user in self.users[node.output[0]])
        if node.op_type != "Add":
            return False
        added = [name for name in node.input if name not in self.constants]
        made = self.maker.get(added[0]) if len(added) == 1 else None
        return made is not None and made.op_type == "MatMul" and len(self.users[added[0]]) == 1

    def _silu(self, node: Any) -> Any:
        """The sigmoid of x where ``node`` multiplies x with it and nothing else reads it; None in all other nodes."""
        if node.op_type != "Mul":
            return None
        for name, other in (node.input, reversed(node.input)):
            made = self.maker.get(name)
            if made is not None and made.op_type == "Sigmoid" and made.input[0] == other and len(self.users[name]) == 1:
                return made
        return None

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self.shapes:
            raise InputError(f"the size of {name!r} in {self.path!r} depends on values; export it for a fixed image size")
        return self.shapes[name]

    def _elements(self, name: str) -> int:
        return math.prod(self._shape(name))


def _read(path: str, image_size: int) -> tuple[Any, list[Any], int]:
    """The graph with all sizes inferred, its weights, and its batch."""
    model, weights = load_onnx(path)
    batch = _set_sizes(path, model.graph, {one.name for one in weights}, image_size)
    from onnx import shape_inference

    try:
        return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph, weights, batch
    except Exception as error:  # onnx's own
        raise InputError(
            f"{path!r} cannot be followed with images of {image_size} pixels: {one_line(error)[:200]}; give another image size"
        ) from error


def _set_sizes(path: str, graph: Any, weights: set[str], image_size: int) -> int:
    """Set the open axes of the inputs, forget what was inferred without them, and tell the batch."""
    images = [one.type.tensor_type.shape.dim for one in graph.input if one.name not in weights]
    if not images or not len(images[0]):
        raise InputError(f"{path!r} takes no tensor; give the file of a network for images")
    for sides in images:
        for place, side in enumerate(sides):
            if not side.HasField("dim_value") or side.dim_value < 1:
                side.dim_value = 1 if place == 0 else image_size if place >= len(sides) - 2 else 3
    wanted = [int(side.dim_value) for side in list(images[0])[2:]]
    if any(side != image_size for side in wanted):
        raise InputError(
            f"{path!r} is exported for images of {' x '.join(map(str, wanted))} pixels, not {image_size}; "
            "give that image size, or export it with open axes"
        )
    del graph.value_info[:]
    for one in graph.output:
        one.type.tensor_type.ClearField("shape")
    return int(images[0][0].dim_value)
