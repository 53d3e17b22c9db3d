"""The computation graph of a network: what Table I of the DNN-occu paper says of nodes and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.network.operators import UNKNOWN
from epochcast.analyzer.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIZES = ("read", "written", "weights", "flops")
"""Columns of :attr:`ComputationGraph.sizes`: elements of activations read and written, of weights, and floating-point
operations (a multiply-add counts two)."""

HYPER_PARAMETERS = (
    *("input_features", "output_features", "kernel_height", "kernel_width", "stride", "dilation", "groups"),
    *("rows", "reduced", "heads", "layers", "directions", "strided"),
)
"""Columns of :attr:`ComputationGraph.hyper_parameters`; 0 where one does not apply.

Features: channels of a convolution, sides of a dense layer, hidden size of a recurrent one, size of an attention head.
``rows``: of each matrix in a batched product, queries of attention, steps of a recurrent layer.
``reduced``: how many elements go into one of the answer: the inner side of a product, what a norm or softmax runs over, keys
of attention, the window of a pool. ``strided``: 1 where an input is not contiguous, so that its elements lie apart.
"""

PRODUCTS = ("convolution", "transposed_convolution", "linear", "matmul")
RECURRENT = {"lstm": 4, "gru": 3, "rnn": 1}
"""Gates of each recurrent layer."""

_PER_ELEMENT = {
    "softmax": 5.0,
    "batch_norm": 4.0,
    "layer_norm": 8.0,
    "rms_norm": 5.0,
    "group_norm": 8.0,
    "gelu": 8.0,
    "silu": 5.0,
    "sigmoid": 4.0,
    "tanh": 5.0,
    "exponential": 2.0,
    **dict.fromkeys(("concatenate", "copy", "pad", "index", "scatter", "create", "embedding", "random"), 0.0),
}
"""Of each element written; one for every other operator."""


SAMPLES = 1009
"""The batch that is read where one may be chosen: tensors that grow with the batch are those whose elements this prime divides.

Nothing has memory, so a large one costs nothing. One sample would do worse: torch then takes copies for views.
"""


@dataclass(frozen=True)
class ComputationGraph:
    """Operators that launch kernels, and the tensors between them; views launch none and are edges.

    As it is read it has all operators of a forward pass in training, dropout among them.

    Args:
        name: of the network.
        batch: samples that the sizes are for.
        words: operator types, n of :data:`.vocabulary.VOCABULARY`, in the order of execution.
        hyper_parameters: shape (n, len(HYPER_PARAMETERS)).
        sizes: shape (n, len(SIZES)), elements and FLOPs.
        fixed: shape (n, len(SIZES)), how much of the sizes is the same for every batch: weights, masks, positions.
        floating: shape (n,), whether it answers floating-point numbers, whose width the precision sets.
        edges: shape (2, e): from the operator that writes a tensor to one that reads it, also through views.
        unknown: operators without a word, with how often each occurs.
        as_read: of a graph :meth:`in_training` the graph that it was made of.
    """

    name: str
    batch: int
    words: tuple[str, ...]
    hyper_parameters: Floats
    sizes: Floats
    fixed: Floats
    floating: NDArray[np.bool_]
    edges: Ints
    unknown: dict[str, int]
    as_read: ComputationGraph | None = None

    def __len__(self) -> int:
        return len(self.words)

    def column(self, name: str) -> Floats:
        """One of SIZES or HYPER_PARAMETERS of all nodes, shape (n,)."""
        if name in SIZES:
            return self.sizes[:, SIZES.index(name)]
        return self.hyper_parameters[:, HYPER_PARAMETERS.index(name)]

    def at_batch(self, batch: int) -> ComputationGraph:
        """The graph of another batch size, without reading the network again: what is not fixed is proportional to it."""
        factor = batch / self.batch
        return replace(
            self,
            batch=batch,
            sizes=self.fixed + (self.sizes - self.fixed) * factor,
            as_read=None if self.as_read is None else self.as_read.at_batch(batch),
        )

    def in_training(self) -> ComputationGraph:
        """The graph of a training step, as fits on measured trainings know it, and predictors take it.

        Sums and concatenations of what other operators wrote are edges: what reads one reads all of its parts.
        """
        if self.as_read is not None:
            return self
        parts = np.array([{"add": 2, "concatenate": 1}.get(word, 0) for word in self.words])  # read for each that is written
        read, written = (self.sizes - self.fixed)[:, [SIZES.index("read"), SIZES.index("written")]].T  # masks are no parts
        joins = (parts > 0) & self.floating & (self.column("weights") == 0) & (written > 0)
        joins &= np.isclose(read, parts * written)
        for ends in self.edges:  # what comes in alone, or goes out, remains
            joins &= np.isin(np.arange(len(self)), ends)
        return replace(self._without(joins), as_read=self)

    def in_inference(self) -> ComputationGraph:
        """The graph of a forward pass in evaluation: without dropout."""
        graph = self.as_read or self
        return graph._without(np.array(graph.words) == "dropout")

    def _without(self, removed: NDArray[np.bool_]) -> ComputationGraph:
        """The graph without the operators of a mask of shape (n,): what read them reads what they read."""
        reads: list[set[int]] = [set() for _ in self.words]
        for writer, reader in sorted(self.edges.T.tolist(), key=lambda edge: (edge[1], edge[0])):  # so writers are done
            reads[reader] |= reads[writer] if removed[writer] else {writer}
        kept, number = ~removed, np.cumsum(~removed) - 1
        new = [(number[writer], number[reader]) for reader in np.flatnonzero(kept) for writer in sorted(reads[reader])]
        return replace(
            self,
            words=tuple(word for word, own in zip(self.words, kept, strict=True) if own),
            **{name: getattr(self, name)[kept] for name in ("hyper_parameters", "sizes", "fixed", "floating")},
            edges=np.array(new, dtype=np.int64).reshape(-1, 2).T,
        )


def flops(word: str, hyper: Mapping[str, float], read: float, written: float) -> float:
    """FLOPs of one call; ``hyper`` by HYPER_PARAMETERS, missing ones are 0, sizes in elements of activations.

    Section III-C: a convolution's are 2·K·C·R·S·N·P·Q, and those of attention are those of its matrix products.
    """
    if word == "transposed_convolution":  # every element read meets every weight of its channel
        window = hyper.get("kernel_height", 1.0) * hyper.get("kernel_width", 1.0)
        return 2.0 * read * window * hyper.get("output_features", 0.0) / max(1.0, hyper.get("groups", 1.0))
    if word in PRODUCTS:
        return 2.0 * written * hyper.get("reduced", 0.0)
    if word == "attention":  # queries with keys, and weights with values
        return 4.0 * written * hyper.get("reduced", 0.0)
    if word in RECURRENT:
        hidden, layers = hyper.get("output_features", 0.0), max(1.0, hyper.get("layers", 1.0))
        above = hidden * max(1.0, hyper.get("directions", 1.0))  # a layer reads both directions of the one before
        widths = hyper.get("input_features", 0.0) + (layers - 1) * above + layers * hidden
        return RECURRENT[word] * (2.0 * written * widths)  # the last layer's answer: steps x batch x hidden x directions
    if word in ("max_pool", "average_pool"):
        return written * max(1.0, hyper.get("reduced", 0.0))
    if word in ("reduce", "arg_reduce", "scan"):
        return read
    return _PER_ELEMENT.get(word, 1.0) * written


@dataclass
class GraphBuilder:
    """Collects operators and edges, in the order of execution.

    Elements of a tensor are a pair, shape (2,): for the batch that is read, and how many of them for any batch.

    Args:
        batch: samples that are read.
        every_reached: whether all that the input reaches grows with the batch, rather than what ``batch`` divides.

    Attributes:
        linear: whether what grows with the batch does so in proportion; not known with ``every_reached``.
    """

    batch: int
    every_reached: bool = False
    linear: bool = True
    words: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def elements(self, elements: int, of_the_input: bool) -> Floats:
        """Those of a tensor, which depends on the network's input or does not."""
        if self.every_reached:
            return np.array([elements, 0.0 if of_the_input else elements])
        if elements and elements % self.batch**2 == 0:
            self.linear = False
        return np.array([elements, elements if elements % self.batch else 0.0])

    def add(
        self,
        word: str,
        operator: str,
        hyper: Mapping[str, float],
        read: Floats,
        written: Floats,
        weights: float,
        floating: bool,
        reads: Iterable[int],
    ) -> int:
        """Add the next operator; its number.

        Args:
            word: of the vocabulary.
            operator: what its library calls it, which is noted where the word is unknown.
            hyper: by HYPER_PARAMETERS, without those that are 0.
            read, written: elements of activations.
            weights: elements.
            floating: whether it answers floating-point numbers.
            reads: numbers of the operators whose answers it reads.
        """
        here = len(self.words)
        if not self.every_reached and any(value and value % self.batch == 0 for value in hyper.values()):
            self.linear = False
        if word == UNKNOWN:
            self.unknown[operator] += 1
        self.words.append(word)
        # FLOPs are proportional to what is read and written, so their fixed parts are to theirs
        sizes = [(a, b, weights, flops(word, hyper, a, b)) for a, b in zip(read.tolist(), written.tolist(), strict=True)]
        self.rows.append(([hyper.get(name, 0.0) for name in HYPER_PARAMETERS], *sizes, floating))
        self.edges |= dict.fromkeys((writer, here) for writer in reads)
        return here

    def graph(self, name: str) -> ComputationGraph:
        """What was collected, of the network of this name; raises InputError where there is nothing."""
        if not self.words:
            raise InputError(f"{name} has no operator that computes something; give a network")
        hyper, sizes, fixed, floating = map(np.array, zip(*self.rows, strict=True))
        edges = np.array(list(self.edges), dtype=np.int64).reshape(-1, 2).T
        return ComputationGraph(
            name, self.batch, tuple(self.words), hyper.astype(float), sizes, fixed, floating, edges, dict(self.unknown)
        )
