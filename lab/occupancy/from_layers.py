"""Graphs of networks that are given as a list of layers: kind, elements written for a sample, and parameters of each.

Such lists say nothing of shapes or of who reads what. Both follow from the parameters: a convolution of c to o channels with a
k x k kernel has o (c k² + 1) of them and writes o h² elements, and c is the channels of the layer before, of the block's input
(a residual block's shortcut), or of all that was made in a dense block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from epochcast.analyzer.backends.network.operators import word_of
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph, GraphBuilder
from epochcast.analyzer.errors import InputError

_GROWTH = 32
"""Channels that a layer of a dense block adds, in all networks of the tables that are read."""

_PRODUCTS = ("conv2d", "linear")
_KINDS = (
    *(*_PRODUCTS, "batchnorm2d", "batch_normalization", "dropout", "adaptive_avg_pool2d", "softmax", "relu", "leakyrelu"),
    *("elu", "selu", "prelu", "gelu", "silu", "mish", "softplus", "sigmoid", "tanh"),
)
_ATEN = {"batchnorm2d": "batch_norm", "batch_normalization": "batch_norm", "leakyrelu": "leaky_relu"}
_WORDS = {kind: word_of(_ATEN.get(kind, kind)) for kind in _KINDS}
"""The vocabulary's word for each kind of layer, in lower letters."""


class ListedLayer(NamedTuple):
    """A layer as a table has it: kind, elements that it writes for a sample, parameters."""

    kind: str
    written: int
    parameters: int


class _Product(NamedTuple):
    """A convolution or dense layer.

    Attributes:
        inputs, outputs: channels or features.
        kernel, input_side, side: of the kernel, of the input and of the answer; 1 for dense layers.
        role: ``next`` reads the layer before it, ``shortcut`` and ``first`` a residual block's input, ``growing`` and
            ``transition`` all that was made in a dense block.
    """

    inputs: int
    outputs: int
    kernel: int
    input_side: int
    side: int
    role: Literal["next", "shortcut", "first", "growing", "transition"] = "next"


def graph_of_layers(
    name: str, layers: Sequence[ListedLayer], architecture: str, inputs: int, side: int, batch: int
) -> ComputationGraph:
    """The graph of a training step, as :meth:`.ComputationGraph.in_training` gives it for the network itself.

    Args:
        name: of the network.
        layers: in the order of running.
        architecture: ``residual`` and ``dense`` have blocks; all others run one layer after the other.
        inputs: channels or features of a sample.
        side: of the square image, pixels; 1 where samples are no images.
        batch: samples of a step.

    Raises:
        InputError: parameters and elements fit no such network, a kind is unknown, or there is no layer.
    """
    builder = GraphBuilder(batch=1, every_reached=True)
    products = _products(name, layers, architecture, inputs, side)
    entry: list[int] = []  # operators that a residual block reads; those whose answers a dense block has put together
    beside: list[int] = []  # what is added to a residual block's answer: the end of its shortcut, or its input
    in_shortcut = False
    elements = inputs * side * side
    for layer in layers:
        kind = layer.kind.lower()
        if kind == "identity":  # nothing runs
            continue
        last = [len(builder.words) - 1] if builder.words else []
        if kind not in _WORDS:
            raise InputError(f"{name} has a layer of kind {layer.kind!r}; known are {', '.join(_WORDS)}")
        hyper, reads = {}, last
        if kind in _PRODUCTS:
            product = next(products)
            if product.role == "first" and in_shortcut:
                beside, in_shortcut = last, False
            elif product.role in ("shortcut", "first"):
                entry, in_shortcut = [*last, *beside], product.role == "shortcut"
                beside = entry
            elif product.role != "next":
                size = product.inputs * product.input_side**2
                if last and not entry and elements > size:  # between dense blocks is a pool that is not listed
                    last = [_add(builder, "average_pool", _window(2), elements, size, 0, last)]
                entry = [*entry, *last]
            reads = last if product.role == "next" else entry
            entry = [] if product.role == "transition" else entry
            hyper, elements, side = _hyper(product, kind), product.inputs * product.input_side**2, product.side
        elif kind == "adaptive_avg_pool2d":
            reads = [*last, *(entry if architecture == "dense" else beside)]
            hyper, elements = _window(side), layer.written * side**2
        elif _WORDS[kind] == "batch_norm":
            hyper = {"input_features": layer.parameters // 2, "output_features": layer.parameters // 2}
        elif kind == "softmax":
            hyper = {"reduced": layer.written}
        elif kind == "prelu":
            hyper = {"strided": 1}  # its slope is read again for each element
        parameters = layer.parameters or int(kind == "prelu")  # the slope, which is not listed
        _add(builder, _WORDS[kind], hyper, elements, layer.written, parameters, reads)
        elements = layer.written
    return builder.graph(name).at_batch(batch).in_training()


def _add(
    builder: GraphBuilder,
    word: str,
    hyper: Mapping[str, float],
    read: int,
    written: int,
    parameters: int,
    reads: Sequence[int],
) -> int:
    """Add an operator that reads all that others wrote; its number."""
    return builder.add(word, word, hyper, np.array([read, 0.0]), np.array([written, 0.0]), parameters, True, reads)


def _hyper(product: _Product, kind: str) -> dict[str, float]:
    common = {"input_features": product.inputs, "output_features": product.outputs}
    hyper: dict[str, float] = {**common, "reduced": product.inputs * product.kernel**2}
    if kind == "conv2d":
        stride = max(1, round(product.input_side / product.side))
        hyper |= {"kernel_height": product.kernel, "kernel_width": product.kernel, "stride": stride, "dilation": 1, "groups": 1}
    return hyper


def _window(side: int) -> dict[str, float]:
    """Hyper-parameters of a pool without overlaps."""
    return {"kernel_height": side, "kernel_width": side, "stride": side, "reduced": side**2}


def _products(name: str, layers: Sequence[ListedLayer], architecture: str, channels: int, side: int) -> Iterator[_Product]:
    """Shapes of the convolutions and dense layers, in order; raises InputError for what fits none."""
    listed = [layer for layer in layers if layer.kind.lower() in _PRODUCTS]
    convolutions = [layer for layer in listed if layer.kind.lower() == "conv2d"]
    read = {"residual": _residual, "dense": _dense}.get(architecture, _sequential)
    solved = 0
    for solved, product in enumerate(read(convolutions, channels, side), 1):  # noqa: B007
        yield product
    if solved < len(convolutions):
        layer = convolutions[solved]
        raise InputError(
            f"{name}: convolution {solved + 1} writes {layer.written} elements with {layer.parameters} parameters, which "
            f"matches no {architecture} network"
        )
    for layer in listed[len(convolutions) :]:
        features = layer.parameters // max(layer.written, 1) - 1
        if layer.parameters != layer.written * (features + 1):
            raise InputError(
                f"{name}: a dense layer of {layer.written} features has {layer.parameters} parameters, no multiple of them"
            )
        yield _Product(features, layer.written, 1, 1, 1)


def _solved(layer: ListedLayer, channels: int, kernel: int, side: int) -> _Product | None:
    """The convolution with these input channels that has the layer's parameters and elements; None if no convolution has."""
    outputs, rest = divmod(layer.parameters, channels * kernel * kernel + 1)
    if rest or not outputs or layer.written % outputs:
        return None
    answer = math.isqrt(layer.written // outputs)
    if answer * answer * outputs != layer.written or answer > side:
        return None
    return _Product(channels, outputs, kernel, side, answer)


def _sequential(layers: Sequence[ListedLayer], channels: int, side: int) -> Iterator[_Product]:
    """Convolutions of 3 x 3, up to the first that is none."""
    for layer in layers:
        product = _solved(layer, channels, 3, side)
        if product is None:
            return
        yield product
        channels, side = product.outputs, product.side


def _residual(layers: Sequence[ListedLayer], channels: int, side: int) -> Iterator[_Product]:
    """Blocks of two 3 x 3 convolutions; the 1 x 1 of a shortcut comes first where channels or side change."""
    rest = list(layers)
    while rest:
        shortcut = _solved(rest[0], channels, 1, side)
        after = _solved(rest[1], channels, 3, side) if shortcut and len(rest) > 1 else None
        if shortcut and after and after.outputs == shortcut.outputs:
            yield shortcut._replace(role="shortcut")
            rest = rest[1:]
        block = list(_sequential(rest[:2], channels, side))
        if not block:
            return
        yield block[0]._replace(role="first")
        yield from block[1:]
        if len(block) < len(rest[:2]):
            return
        rest, channels, side = rest[2:], block[0].outputs, block[0].side


def _dense(layers: Sequence[ListedLayer], channels: int, side: int) -> Iterator[_Product]:
    """Layers that add _GROWTH channels each; a 1 x 1 convolution and a pool, which is not listed, between blocks."""
    for layer in layers:
        grown = _solved(layer, channels, 3, side)
        transition = _solved(layer, channels, 1, side)
        if grown and grown.outputs == _GROWTH:
            side = grown.side  # a pool that is not listed
            yield grown._replace(role="growing", input_side=side)
            channels += _GROWTH
        elif transition:
            yield transition._replace(role="transition")
            channels, side = transition.outputs, transition.side
        else:
            return
