"""Counts of a network for one image, which are the metrics of section 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
