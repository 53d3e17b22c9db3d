"""The range of networks in a fit, and the parts of a question outside it, where models are not reliable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.analyzer.backends.network.operators import UNKNOWN
from epochcast.analyzer.backends.occupancy.graph.computation_graph import PRODUCTS, RECURRENT
from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.analyzer.backends.occupancy.step_features import operator_seconds

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
