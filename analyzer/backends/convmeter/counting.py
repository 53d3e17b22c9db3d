"""The metrics of a network, from one forward pass on the meta device: no memory, no computing (section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, COMPUTING_KINDS, PER_IMAGE
from epochcast.analyzer.backends.network.factory import why_untraceable
from epochcast.analyzer.backends.network.operators import layer_kind_of, name_of
from epochcast.analyzer.backends.network.recording import RecordedCall, TensorReference, record_evaluation
from epochcast.analyzer.errors import InputError

_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}
"""Matrix products, and the position of their first factor."""

_NARROW = 64
"""Products per output element below which a convolution fills no matrix unit."""

_DEPTHWISE = 4
"""Input channels per group up to which a convolution counts as depthwise: too few products for a matrix unit at any kernel."""

_CONVOLUTIONS = ("spatial", "pointwise", "grouped", "depthwise")


def count(network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int) -> dict[str, dict[str, float]]:
    """Count a network called on ``inputs``: metrics of one image, by :data:`.metrics.COLUMNS`.

    Operators are counted as they run in evaluation, functional calls too. An operator on weights alone (a standardised kernel)
    has no traffic, because the batch does not multiply it.

    Args:
        network: on any device; it is left as it was.
        inputs: of any number of images.
        name: of the network, for messages.
        image_size: side of the image, pixels, for messages.

    Returns:
        Of the network, by an empty path, and of every submodule that ran, by its own, also of those without FLOPs. A module
        that runs several times holds all its calls.

    Raises:
        InputError: the network does not run without values or at this size, or nothing in it has FLOPs.
    """
    try:
        recording = record_evaluation(network, inputs)
    except InputError:
        raise
    except Exception as error:  # a user's network may raise anything
        remedy = f"give an image size that it accepts instead of {image_size} pixels, or a factory of (network, inputs)"
        raise InputError(why_untraceable(name, error, remedy)) from error
    layers: dict[str, list[_Layer]] = {"": []}
    computed = set(recording.inputs)
    for call in recording.calls:
        activations = [tensor for tensor in call.inputs if tensor.number in computed]
        if activations:
            computed.update(tensor.number for tensor in call.outputs)
        if layer := _layer_of(call, activations):
            for path in dict.fromkeys(call.path):
                layers.setdefault(path, []).append(layer)
    images = next((len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.dim()), 1)
    metrics = {path: _sums(own, network.get_submodule(path), images) for path, own in layers.items()}
    if not metrics[""]["flops"]:
        raise InputError(
            f"{name} has no convolution, dense layer or matrix product; predictions from FLOPs and layers need at least one"
        )
    return metrics


@dataclass(frozen=True)
class _Layer:
    """An operator at batch 1.

    Attributes:
        kind: one of :data:`.metrics.KINDS`.
        read, written: elements of the activations.
        flops: 0 for what memory bounds.
        weight: the kernel of a convolution or dense layer; None for other operators.
    """

    kind: str
    read: int
    written: int
    flops: float = 0.0
    weight: TensorReference | None = None


def _layer_of(call: RecordedCall, activations: Sequence[TensorReference]) -> _Layer | None:
    """The layer that a call is; None for views and allocations, which cost nothing.

    Args:
        call: any.
        activations: its inputs that depend on the network's inputs.
    """
    name, kind = name_of(call.operator), layer_kind_of(call.operator)
    if kind is None or not call.outputs:
        return None
    read = sum(tensor.meta.numel() for tensor in activations)
    # Statistics of normalisations and indices of poolings come after the first output.
    counted = call.outputs[:1] if kind in ("normalisation", "pooling") else call.outputs
    # What is made of weights alone, such as a standardised kernel, is made once however large the batch.
    written = sum(tensor.meta.numel() for tensor in counted) if activations else 0
    if activations and name in ("convolution", "_convolution"):
        return _convolution(call.arguments, read, written)
    if activations and name in _PRODUCTS:
        factors = call.arguments[_PRODUCTS[name] :][:2]
        weight = next((factor for factor in factors if factor not in activations), None)
        flops = 2.0 * factors[0].meta.shape[-1] * written
        return _Layer("linear" if weight else "attention", read, written, flops, weight)
    return _Layer(kind, read, written)


def _convolution(arguments: Sequence[Any], read: int, written: int) -> _Layer:
    image, weight, transposed, groups = arguments[0], arguments[1], arguments[6], arguments[8]
    read, kernel = image.meta.numel(), weight.meta.shape
    # A transposed convolution multiplies each input with its kernel instead of gathering each output from one.
    flops = 2.0 * (read if transposed else written) * math.prod(kernel[1:])
    if groups > 1:
        kind = "depthwise" if image.meta.shape[1] // groups <= _DEPTHWISE else "grouped"
    else:
        kind = "pointwise" if math.prod(kernel[2:]) == 1 else "spatial"
    return _Layer(kind, read, written, flops, weight)


def _sums(layers: Iterable[_Layer], module: nn.Module, images: int) -> dict[str, float]:
    """All of :data:`.metrics.COLUMNS` for one image, from the layers of a module that ran on so many."""
    values = dict.fromkeys(COLUMNS, 0.0)
    kernels: dict[int, tuple[str, int]] = {}  # by what has a memory of its own: each is kept once
    for layer in layers:
        values["operators"] += 1
        values[f"{layer.kind}_operators"] += 1
        values[f"{layer.kind}_traffic"] += layer.read + layer.written
        if layer.kind not in COMPUTING_KINDS:
            continue
        values["flops"] += layer.flops
        values[f"{layer.kind}_flops"] += layer.flops
        if layer.kind in _CONVOLUTIONS:
            values["conv_inputs"] += layer.read
            values["conv_outputs"] += layer.written
            values["narrow_flops"] += layer.flops if layer.flops < 2 * layer.written * _NARROW else 0.0
        if layer.weight is not None:
            values["layers"] += 1
            kind = "conv_weights" if layer.kind in _CONVOLUTIONS else "linear_weights"
            kernels[layer.weight.storage] = (kind, layer.weight.elements)
    for kind, elements in kernels.values():
        values[kind] += elements
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    values["weights"] = float(sum(parameter.numel() for parameter in trained))
    values["parameter_tensors"] = float(len(trained))
    return values | {name: values[name] / images for name in PER_IMAGE}
