"""What DNN-occu sees of a graph on a GPU: the node and edge features of Table I of the DNN-occu paper, as numbers.

Counts, bytes and rates span many powers of ten, so each enters as log(1 + x). Another batch size, precision or GPU changes
these numbers alone: no new export.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, RECURRENT, ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import WIDTHS, Sample
from epochcast.regressor import Gpu

Rows = NDArray[np.float32]

_WORDS = tuple(f"is_{word}" for word in VOCABULARY)
SIZES = ("read", "written", "temporary", "weights", "flops")
"""Of a graph's sizes, and the elements of intermediate results that an operator makes for itself (a convolution's unfolded
input, attention's scores, gates)."""

EDGE_TYPES = ("direct", "viewed", "backward")
"""Whether an answer is used as it is in memory, through views (which no graph of the tables has), or whether the edge is the
way back of its gradient."""

_DEVICE = ("gpu_flops", "gpu_memory_bytes", "gpu_sms")

NODE_NAMES = (*_WORDS, *HYPER_PARAMETERS, *(f"{name}_bytes" for name in SIZES if name != "flops"), "flops", *_DEVICE)
"""Columns of :func:`node_features`. All but the first len(VOCABULARY) are log(1 + x)."""
NODE_FEATURES = len(NODE_NAMES)

EDGE_NAMES = (*(f"is_{kind}" for kind in EDGE_TYPES), "tensor_bytes", "bandwidth")
"""Columns of :func:`edge_features`; the last two are log(1 + x)."""
EDGE_FEATURES = len(EDGE_NAMES)

_INTEGER_BYTES = 8
"""torch's integers have 64 bits by default; its booleans, which are rarer, count as integers here."""


def node_features(sample: Sample) -> Rows:
    """One row per operator in the order of execution, shape (n, NODE_FEATURES), before standardising.

    The operator's type as one-hot, its hyper-parameters, bytes of tensors read, written, temporary and of weights, FLOPs, and
    of the GPU the FLOP/s at the configuration's precision, memory capacity and number of SMs (Table I).
    """
    graph, precision = sample.graph, sample.configuration.precision
    n = len(graph)
    words = np.eye(len(VOCABULARY))[[VOCABULARY.index(word) for word in graph.words]]
    width = np.where(graph.floating, WIDTHS[precision], _INTEGER_BYTES)
    read, written, weights, flops = graph.sizes.T
    hypers = (dict(zip(HYPER_PARAMETERS, row, strict=True)) for row in graph.hyper_parameters.tolist())
    made = [temporary(*one) for one in zip(graph.words, hypers, written.tolist(), strict=True)]
    sizes = np.stack([read * width, written * width, np.array(made) * width, weights * width, flops], axis=1)
    device = np.broadcast_to([peak_flops(sample.gpu, precision), sample.gpu.memory, sample.gpu.sm_count], (n, len(_DEVICE)))
    return np.concatenate([words, np.log1p(np.concatenate([graph.hyper_parameters, sizes, device], axis=1))], axis=1).astype(
        np.float32
    )


def edge_features(sample: Sample) -> Rows:
    """One row per edge of :func:`both_ways`, shape (e, EDGE_FEATURES), before standardising.

    The edge's type as one-hot, bytes of what its operator wrote, and the GPU's memory bandwidth in bytes/s (Table I).
    """
    graph, precision = sample.graph, sample.configuration.precision
    types = np.eye(len(EDGE_TYPES))[np.repeat([0, EDGE_TYPES.index("backward")], graph.edges.shape[1])]
    width = np.where(graph.floating[both_ways(graph)[0]], WIDTHS[precision], _INTEGER_BYTES)
    elements = np.tile(graph.column("written")[graph.edges[0]], 2)
    sizes = np.stack([elements * width, np.full(len(types), sample.gpu.memory_bandwidth)], axis=1)
    return np.concatenate([types, np.log1p(sizes)], axis=1).astype(np.float32)


def both_ways(graph: ComputationGraph) -> NDArray[np.int64]:
    """The edges of a graph, and next to each the one back along which its gradient comes (Table I); shape (2, 2 e)."""
    return np.concatenate([graph.edges, graph.edges[::-1]], axis=1)


def temporary(word: str, hyper: Mapping[str, float], written: float) -> float:
    """Elements that an operator makes for itself; ``hyper`` by HYPER_PARAMETERS."""
    if word == "convolution" and hyper["kernel_height"] * hyper["kernel_width"] > 1.0:
        return written / max(1.0, hyper["output_features"]) * hyper["reduced"] * hyper["groups"]
    if word == "attention":  # written has one head's features in the last axis, the scores have the keys there
        return written / max(1.0, hyper["output_features"]) * hyper["reduced"]
    if word in RECURRENT:
        return RECURRENT[word] * written * max(1.0, hyper["layers"])
    if word in ("softmax", "layer_norm", "rms_norm", "group_norm"):  # a statistic per row
        return written / max(1.0, hyper["reduced"])
    return 0.0


def peak_flops(gpu: Gpu, precision: str) -> float:
    """FLOP/s of a GPU at a precision: of its tensor cores for halves where it has them, of its FP32 lanes otherwise."""
    faster = {"fp16": (gpu.fp16_tensor_flops, gpu.fp16_flops), "bf16": (gpu.bf16_tensor_flops,)}.get(precision, ())
    return next(filter(None, faster), gpu.effective_flops)


@dataclass(frozen=True)
class Standardiser:
    """Shifts and scales columns by what the training rows held; columns that never changed there become 0.

    So an operator or a GPU that was never seen does not push a network into weights that nothing has trained: a new word is
    known by its sizes alone, and where one GPU was seen, the device columns carry no information.

    Attributes:
        mean: subtracted, shape (columns,).
        scale: multiplied, (columns,): 1/standard deviation; 1 for 0/1 columns (their mean is 0 here), 0 for constant ones.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, parts: Sequence[Rows]) -> Standardiser:
        """From rows of many graphs, each of shape (n, columns); 0/1 columns keep their values, for a rare 1 stays a 1."""
        rows = sum(len(part) for part in parts)
        columns = parts[0].shape[1]
        if not rows:  # graphs of one operator have no edges
            return cls(np.zeros(columns), np.zeros(columns))
        lowest = np.min([part.min(axis=0, initial=np.inf) for part in parts], axis=0)
        highest = np.max([part.max(axis=0, initial=-np.inf) for part in parts], axis=0)
        binary = np.all([((part == 0) | (part == 1)).all(axis=0) for part in parts], axis=0)
        mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / rows
        squares = sum(((part - mean) ** 2).sum(axis=0) for part in parts)
        deviation = np.sqrt(squares / rows)
        constant = highest == lowest
        scale = np.where(binary, 1.0, 1.0 / np.where(constant, 1.0, deviation))
        return cls(np.where(binary, 0.0, mean), np.where(constant, 0.0, scale))

    def apply(self, rows: Rows) -> Rows:
        """Standardised rows, shape (n, columns)."""
        return ((rows - self.mean) * self.scale).astype(np.float32)
