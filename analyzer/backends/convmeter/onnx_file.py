"""The metrics of a network in an ONNX file, read with the onnx library; torch is not needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from epochcast.analyzer.backends.convmeter.metrics import (
    PER_IMAGE,
    CountedLayer,
    NetworkMetrics,
    convolution,
    matrix_product,
    metrics_of_layers,
)
from epochcast.analyzer.backends.reader.onnx_graph import OnnxGraph, OnnxOperator
from epochcast.analyzer.backends.reader.onnx_model import load_onnx
from epochcast.analyzer.backends.reader.onnx_values import FLOATS, SHAPED, Value
from epochcast.analyzer.errors import InputError

_KINDS = {
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
    **dict.fromkeys(("Concat", "Tile", "DepthToSpace", "SpaceToDepth", *SHAPED), "concatenation"),
}
"""Kinds of layers that compute nothing by what ONNX calls them, reshapes that copy among them; all others are elementwise."""

_UNKNOWN_WORK = {"Einsum", "LSTM", "GRU", "RNN", "QLinearConv", "QLinearMatMul", "ConvInteger", "DeformConv"}
_STATISTICS = {"BatchNormalization": slice(3, 5)}
"""Inputs that are not trained."""


def count_onnx(path: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Count the network in a file for one image.

    Axes that the file leaves open are set: the batch to 1, an image's sides to ``image_size``. Operators that torch runs as one
    count as one (:mod:`..reader.onnx_fusions`). Batch normalisations that the export folded into convolutions are
    not there and not counted: to predict training, export the network with them.

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
    model, weights = load_onnx(path)
    batch = _set_sizes(path, model.graph, {weight.name for weight in weights}, image_size)
    trained = _trained(model.graph, weights)
    layers = (layer for operator in OnnxGraph(path, model, weights).operators() if (layer := _layer(path, operator)))
    values = metrics_of_layers(layers) | {
        "weights": float(sum(trained.values())),
        "parameter_tensors": float(len(trained)),
    }
    if not values["flops"]:
        raise InputError(f"{path!r} has no convolution, dense layer or matrix product; give the file of a network")
    values |= {name: values[name] / batch for name in PER_IMAGE}
    return NetworkMetrics(Path(path).name, "", image_size, values)


def refuse_blocks(path: str) -> NoReturn:
    """Say why a file has no blocks."""
    raise InputError(
        f"{path!r} does not name the blocks of its network; give the network by name or import path to predict them"
    )


def _trained(graph: Any, weights: Sequence[Any]) -> dict[str, int]:
    """Elements of trained tensors, by name."""
    kept = {name for node in graph.node if node.op_type in _STATISTICS for name in node.input[_STATISTICS[node.op_type]]}
    trained = {
        weight.name: math.prod(weight.dims)
        for weight in weights
        if weight.data_type in FLOATS and weight.dims and weight.name not in kept
    }
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in trained:  # exports keep equal weights once
            trained[node.output[0]] = trained[node.input[0]]
    return trained


def _layer(path: str, operator: OnnxOperator) -> CountedLayer | None:
    """The layer that an operator is; None where it reads no image, and for a cast, which torch does not run."""
    kind = operator.call.operator
    if kind in _UNKNOWN_WORK:
        raise InputError(f"{path!r} holds the operator {kind}, whose work cannot be counted; export it without")
    images = [value for value in operator.tensors if value.of_the_input]
    if not images or kind == "Cast":
        return None
    if operator.shapes[0] is None:
        raise InputError(f"the output size of {kind} in {path!r} depends on values; export it for a fixed image size")
    read, written = sum(value.size for value in images), math.prod(operator.shapes[0])
    factors = [value for value in operator.inputs if value is not None][:2]
    if kind in ("Conv", "ConvTranspose"):
        image, weight = factors
        groups = int(operator.attributes.get("group", 1))
        return convolution(image.shape, weight.shape, written, groups, kind == "ConvTranspose", operator.call.inputs[1])
    if kind in ("MatMul", "Gemm"):
        return _product(operator, factors, read, written)
    return CountedLayer(_KINDS.get(kind, "elementwise"), 0.0, read, written)


def _product(operator: OnnxOperator, factors: Sequence[Value], read: int, written: int) -> CountedLayer:
    products = factors[0].shape[0 if operator.attributes.get("transA") else -1]
    constants = [(name, value) for name, value in zip(operator.call.inputs, factors, strict=False) if not value.of_the_input]
    if not constants:
        return matrix_product(products, read, written)
    name, weight = constants[0]
    return matrix_product(products, read, written, name, weight.size)


def _set_sizes(path: str, graph: Any, weights: set[str], image_size: int) -> int:
    """Set the open axes of the inputs; returns the batch."""
    images = [entry.type.tensor_type.shape.dim for entry in graph.input if entry.name not in weights]
    if not images or not len(images[0]):
        raise InputError(f"{path!r} has no input tensor; give the file of a network for images")
    for sides in images:
        for place, side in enumerate(sides):
            if not side.HasField("dim_value") or side.dim_value < 1:
                side.dim_value = 1 if place == 0 else image_size if place >= len(sides) - 2 else 3
    exported = [int(side.dim_value) for side in list(images[0])[2:]]
    if any(side != image_size for side in exported):
        raise InputError(
            f"{path!r} is exported for images of {' x '.join(map(str, exported))} pixels, not {image_size}; "
            "give that image size, or export it with open axes"
        )
    return int(images[0][0].dim_value)
