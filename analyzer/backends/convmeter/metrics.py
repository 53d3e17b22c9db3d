"""Counts of a network for one image: layers, and their sums, which are the metrics of section 3."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

COMPUTING_KINDS = ("spatial", "pointwise", "grouped", "depthwise", "linear", "attention")
"""Kinds of layers with FLOPs: convolutions by kernel and groups (a 1 x 1 kernel is pointwise, up to four input channels per
group depthwise, wider groups grouped), dense layers, and products of two activations."""

MOVING_KINDS = ("elementwise", "normalisation", "pooling", "concatenation")
"""Kinds of layers that memory bounds; their FLOPs are not counted. Pooling is with means, sums and maxima over axes, and
concatenation with all other copies."""

KINDS = (*COMPUTING_KINDS, *MOVING_KINDS)

PER_IMAGE = (
    "flops",
    "conv_inputs",
    "conv_outputs",
    "narrow_flops",
    *(f"{kind}_flops" for kind in COMPUTING_KINDS),
    *(f"{kind}_traffic" for kind in KINDS),
)
"""Columns that grow with the batch.

``flops``: of all convolutions, dense layers and products; a multiplication and its addition are two. ``conv_inputs``,
``conv_outputs``: elements of the inputs and outputs of all convolutions (I and O of section 3). ``narrow_flops``: FLOPs of
convolutions that add up fewer than 64 products per output element (input channels per group times kernel), which fill no
matrix unit. ``KIND_traffic``: elements of the activations read and written.
"""

PER_NETWORK = (
    "weights",
    "conv_weights",
    "linear_weights",
    "layers",
    "parameter_tensors",
    "operators",
    *(f"{kind}_operators" for kind in KINDS),
)
"""Columns that do not grow with the batch.

``weights``: all trainable elements (W). ``conv_weights``, ``linear_weights``: kernels, without biases. ``layers``: convolutions
and dense layers (L). ``operators``: what runs on the device, views left out.
"""

COLUMNS = (*PER_NETWORK, *PER_IMAGE)


NARROW = 64
"""Products per output element below which a convolution fills no matrix unit."""

DEPTHWISE = 4
"""Input channels per group up to which a convolution counts as depthwise: too few products for a matrix unit at any kernel."""

CONVOLUTIONS = ("spatial", "pointwise", "grouped", "depthwise")


@dataclass(frozen=True)
class CountedLayer:
    """An operator at batch 1.

    Attributes:
        kind: one of :data:`KINDS`.
        flops: 0 for what memory bounds; a multiplication and its addition are two.
        read: elements of the activations read.
        written: elements of the activations written.
        products: added up for one output element; 0 where nothing is multiplied.
        weight: identity of the kernel of a convolution or dense layer; None for other operators.
        weight_elements: in that kernel.
    """

    kind: str
    flops: float
    read: int
    written: int
    products: float = 0.0
    weight: Hashable = None
    weight_elements: int = 0


def convolution(
    image: Sequence[int], kernel: Sequence[int], written: int, groups: int, transposed: bool, weight: Hashable
) -> CountedLayer:
    """A convolution, by the shapes of what it reads and of its kernel and the elements that it writes."""
    read, channels = math.prod(image), image[1] // groups
    # A transposed convolution multiplies each input with its kernel instead of gathering each output from one.
    flops = 2.0 * (read if transposed else written) * math.prod(kernel[1:])
    if groups > 1:
        kind = "depthwise" if channels <= DEPTHWISE else "grouped"
    else:
        kind = "pointwise" if math.prod(kernel[2:]) == 1 else "spatial"
    return CountedLayer(kind, flops, read, written, flops / (2 * written), weight, math.prod(kernel))


def matrix_product(products: int, read: int, written: int, weight: Hashable = None, weight_elements: int = 0) -> CountedLayer:
    """A dense layer by what it adds up for each element written; of two activations where it has no weight."""
    kind = "attention" if weight is None else "linear"
    return CountedLayer(kind, 2.0 * products * written, read, written, products, weight, weight_elements)


def metrics_of_layers(layers: Iterable[CountedLayer]) -> dict[str, float]:
    """All of :data:`COLUMNS` that follow from the layers: not ``weights`` and ``parameter_tensors``, which stay 0."""
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


@dataclass(frozen=True)
class NetworkMetrics:
    """Metrics of a network, or of a block of it, at batch 1.

    Attributes:
        network: its name.
        block: path of the submodule that is counted alone; empty for the whole network.
        image_size: side of the square image that the network is given, pixels.
        values: by :data:`COLUMNS`.
    """

    network: str
    block: str
    image_size: int
    values: Mapping[str, float]

    def __post_init__(self) -> None:
        if missing := [name for name in COLUMNS if name not in self.values]:
            raise ValueError(f"the metrics of {self.network} lack {', '.join(missing)}")


def table_of(metrics: Sequence[NetworkMetrics]) -> pd.DataFrame:
    """One row per network or block: ``network``, ``block``, ``image_size`` and :data:`COLUMNS`."""
    rows = [
        {
            "network": network.network,
            "block": network.block,
            "image_size": network.image_size,
            **{name: network.values[name] for name in COLUMNS},
        }
        for network in metrics
    ]
    return pd.DataFrame(rows, columns=["network", "block", "image_size", *COLUMNS])
