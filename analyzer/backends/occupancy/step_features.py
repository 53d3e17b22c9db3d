"""What a training step is like, as one row of numbers: how much it computes and moves next to what its launches take; the
range of networks in a fit, and the parts of a question outside it, where models are not reliable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.network.operators import UNKNOWN
from epochcast.analyzer.backends.occupancy.graph.computation_graph import PRODUCTS, RECURRENT
from epochcast.analyzer.backends.occupancy.networks import WIDTHS, Sample

_LAUNCH = 1e-5
"""Seconds that a host takes to launch a kernel, by order of magnitude; it only scales a feature."""

_TILE = 128
"""Rows and columns of a usual tile of a matrix product (CUTLASS' default threadblock shapes)."""

_MULTIPLES = (2, 4, 8, 32)
"""Of channels: vectorised loads and tensor cores take 2, 4 or 8 numbers at once, warps are 32 wide."""

_PRODUCTS = ("convolution", "linear", "matmul", "attention")
_WORDS = ("batch_norm", "dropout", "average_pool")

STEP_FEATURES = (
    *("batch", "image_side", "first_inputs", "last_outputs", "products", "operators", "has_batch_norm", "has_dropout"),
    *("log_flops", "log_moved", "log_weights", "log_written", "log_plain_seconds", "log_tensor_seconds", "log_update_seconds"),
    *("log_seconds_of_launches", "log_mean_flops", "log_mean_moved", "log_most_moved", "log_least_moved", "log_most_weights"),
    *("most_outputs", "mean_outputs", "least_outputs", "mean_side", "least_side", "log_intensity"),
    *(f"multiples_of_{multiple}" for multiple in _MULTIPLES),
    *("log_mean_tiles", "share_products", *(f"share_{word}" for word in _WORDS), "share_rest"),
)
"""Columns of :func:`step_features`; a fitted model belongs to these."""


def step_features(sample: Sample) -> NDArray[np.float64]:
    """One row of numbers for a graph on a GPU: sizes, counts, seconds by the roofline, and their proportions."""
    graph, gpu, batch = sample.graph, sample.gpu, sample.graph.batch
    words = np.array(graph.words)
    product = np.isin(words, _PRODUCTS)
    flops, weights = graph.column("flops") * product, graph.column("weights")
    moved = graph.column("read") + graph.column("written")
    plain, tensor = (_seconds(sample, flops, peak) for peak in (gpu.effective_flops, _tensor_flops(sample)))
    computing = np.flatnonzero(product) if product.any() else np.zeros(1, dtype=int)
    inputs, outputs = (np.maximum(graph.column(name)[computing], 1) for name in ("input_features", "output_features"))
    places = graph.column("written")[computing] / outputs
    side = np.sqrt(places / batch)
    image = np.sqrt(graph.column("read")[computing[0]] / inputs[0] / batch)
    update = weights.sum() / gpu.memory_bandwidth
    shares = [tensor[words == word].sum() for word in _WORDS]
    rest = tensor.sum() - tensor[computing].sum() - sum(shares)
    return np.array(
        [
            *(batch, image, inputs[0], outputs[-1], len(computing), len(graph)),
            *(float(word in graph.words) for word in _WORDS[:2]),
            *np.log1p([flops.sum(), moved.sum(), weights.sum(), graph.column("written").sum()]),
            *np.log([plain.sum() + 1e-9, tensor.sum() + 1e-9, update + 1e-9]),
            np.log((tensor.sum() + update) / (len(graph) * _LAUNCH) + 1e-9),
            *np.log1p([flops.sum() / len(computing), moved.mean(), moved.max(), moved.min(), weights.max()]),
            *(outputs.max(), outputs.mean(), outputs.min(), side.mean(), side.min()),
            np.log((flops.sum() + 1) / (moved.sum() + weights.sum() + 1)),
            *(np.mean((inputs % multiple == 0) & (outputs % multiple == 0)) for multiple in _MULTIPLES),
            np.log(np.mean(np.ceil(places / _TILE) * np.ceil(outputs / _TILE))),
            *(np.array([tensor[computing].sum(), *shares, rest]) / max(tensor.sum(), 1e-12)),
        ],
        dtype=np.float64,
    )


def operator_seconds(sample: Sample) -> NDArray[np.float64]:
    """Seconds of each operator by the roofline, shape (n,)."""
    products = sample.graph.column("flops") * np.isin(sample.graph.words, _PRODUCTS)
    return _seconds(sample, products, _tensor_flops(sample))


def _seconds(sample: Sample, flops: NDArray[np.float64], peak: float) -> NDArray[np.float64]:
    graph = sample.graph
    moved = graph.column("read") + graph.column("written") + graph.column("weights")
    return np.maximum(flops / peak, WIDTHS[sample.configuration.precision] * moved / sample.gpu.memory_bandwidth)


def _tensor_flops(sample: Sample) -> float:
    """FLOP/s of products: of tensor cores where the GPU has them, which convolutions in FP32 take by torch's default (TF32)."""
    gpu = sample.gpu
    faster = {
        "fp32": (gpu.tf32_tensor_flops,),
        "fp16": (gpu.fp16_tensor_flops, gpu.fp16_flops),
        "bf16": (gpu.bf16_tensor_flops,),
    }
    return next(filter(None, faster[sample.configuration.precision]), gpu.effective_flops)


_COMPUTING = (*PRODUCTS, "attention", *RECURRENT)

_WHOLE = 1e6
"""From here on three digits are enough to read."""


@dataclass(frozen=True)
class FittedRange:
    """What the graphs of the fitted samples have.

    Attributes:
        words: their operators, as :meth:`unknown_operators` names them, sorted.
        ranges: of networks with and without convolutions, which train at other sizes: least and largest ``batch``, ``depth``
            (operators with products), ``width`` (most channels or features that one of these reads or answers) and ``flops``
            (of the forward pass of a step).
    """

    words: tuple[str, ...]
    ranges: Mapping[str, Mapping[str, tuple[float, float]]]

    def unknown_operators(self, sample: Sample) -> tuple[str, ...]:
        """Operators that no fitted network has, in the order of the graph.

        They are named by the vocabulary's words, those without a word as their library calls them; convolutions in groups are
        operators of their own. The graph must be one :meth:`.ComputationGraph.in_training`.
        """
        return tuple(word for word in words_of(sample) if word not in self.words)

    def unknown_share(self, sample: Sample) -> float:
        """The share of a step's time by the roofline that falls to :meth:`unknown_operators`, 0..1."""
        seconds = operator_seconds(sample)
        unknown = ~np.isin(_names(sample), self.words)
        return float(seconds[unknown].sum() / seconds.sum())

    def beyond(self, samples: Sequence[Sample]) -> list[str]:
        """A sentence for each size in which samples lie outside of all fitted networks of their kind.

        Such as ``width 2048 to 4096: measured networks with convolutions have 24 to 1853``.
        """
        outside: dict[tuple[str, str], list[float]] = {}
        for sample in samples:
            kind = kind_of(sample)
            for name, value in sizes_of(sample).items():
                least, most = self.ranges.get(kind, {}).get(name, (math.nan, math.nan))
                if not least <= value <= most:
                    outside.setdefault((kind, name), []).append(value)
        sentences = [f"no network {kind} was measured" for kind, _ in outside if kind not in self.ranges]
        for (kind, name), values in outside.items():
            if kind in self.ranges:
                ends, measured = ((min(values), max(values)), self.ranges[kind][name])
                sentences.append(f"{name} {_span(*ends)}: measured networks {kind} have {_span(*measured)}")
        return list(dict.fromkeys(sentences))


def kind_of(sample: Sample) -> str:
    """By which networks have ranges of their own."""
    return "with convolutions" if "convolution" in sample.graph.words else "without convolutions"


def words_of(sample: Sample) -> tuple[str, ...]:
    """Operators, as :meth:`FittedRange.unknown_operators` names them."""
    named = [name for name in _names(sample) if name != UNKNOWN]
    return tuple(dict.fromkeys((*named, *sample.graph.unknown)))


def _names(sample: Sample) -> list[str]:
    """Of each operator."""
    grouped = sample.graph.column("groups") > 1
    pairs = zip(sample.graph.words, grouped.tolist(), strict=True)
    return [f"grouped_{word}" if own and word == "convolution" else word for word, own in pairs]


def sizes_of(sample: Sample) -> dict[str, float]:
    """Those of :attr:`FittedRange.ranges`."""
    graph = sample.graph
    computing = np.isin(graph.words, _COMPUTING)
    widths = [graph.column(name)[computing].max(initial=0.0) for name in ("input_features", "output_features")]
    sizes = {"batch": graph.batch, "depth": computing.sum(), "width": max(widths), "flops": graph.column("flops").sum()}
    return {name: float(value) for name, value in sizes.items()}


def _span(least: float, most: float) -> str:
    return " to ".join(dict.fromkeys(f"{value:.0f}" if value < _WHOLE else f"{value:.3g}" for value in (least, most)))
