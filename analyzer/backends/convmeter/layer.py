"""Layers as they are counted, whatever told of them, and their sums: the metrics."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from .metrics import COLUMNS, COMPUTING_KINDS

NARROW = 64
"""Products per output element below which a convolution fills no matrix unit."""

DEPTHWISE = 4
"""Input channels per group up to which a convolution counts as depthwise: too few products for a matrix unit at any kernel."""

CONVOLUTIONS = ("spatial", "pointwise", "grouped", "depthwise")


@dataclass(frozen=True)
class Layer:
    """One operator at batch 1.

    Attributes:
        kind: one of :data:`.metrics.KINDS`.
        flops: 0 for what memory bounds; a multiplication and its addition are two.
        read: elements of the activations read.
        written: elements of the activations written.
        products: added up for one output element; 0 where nothing is multiplied.
        weight: which kernel a convolution or dense layer has; None for other operators.
        weight_elements: in that kernel.
    """

    kind: str
    flops: float
    read: int
    written: int
    products: float = 0.0
    weight: Hashable = None
    weight_elements: int = 0


def convolution_kind(kernel_elements: int, groups: int, channels_per_group: int) -> str:
    """Kind of a convolution by the positions of its kernel, its groups and the input channels in each of them."""
    if groups > 1:
        return "depthwise" if channels_per_group <= DEPTHWISE else "grouped"
    return "pointwise" if kernel_elements == 1 else "spatial"


def metrics_of_layers(layers: Iterable[Layer]) -> dict[str, float]:
    """All of :data:`.metrics.COLUMNS` that follow from the layers: not ``weights`` and ``parameter_tensors``, which stay 0."""
    values = dict.fromkeys(COLUMNS, 0.0)
    kernels: dict[Hashable, tuple[str, int]] = {}
    for layer in layers:
        values["operators"] += 1
        values[f"{layer.kind}_operators"] += 1
        values[f"{layer.kind}_traffic"] += layer.read + layer.written
        if layer.kind not in COMPUTING_KINDS:
            continue
        values["flops"] += layer.flops
        values[f"{layer.kind}_flops"] += layer.flops
        if layer.kind in CONVOLUTIONS:
            values["conv_inputs"] += layer.read
            values["conv_outputs"] += layer.written
            values["narrow_flops"] += layer.flops if layer.products < NARROW else 0.0
        if layer.weight is not None:
            values["layers"] += 1
            kernels[layer.weight] = ("conv" if layer.kind in CONVOLUTIONS else "linear", layer.weight_elements)
    for place, elements in kernels.values():
        values[f"{place}_weights"] += elements
    return values
