"""A graph as it is read, operator by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from epochcast.analyzer.backends.network.operators import UNKNOWN
from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph, flops
from epochcast.analyzer.errors import InputError

SAMPLES = 1009
"""The batch that is read where one may be chosen: tensors that grow with the batch are those whose elements this prime divides.

Nothing has memory, so a large one costs nothing. One sample would do worse: torch then takes copies for views.
"""


@dataclass(frozen=True)
class Elements:
    """How many elements a tensor has for the batch that is read, and how many of them for any batch."""

    all: float = 0.0
    fixed: float = 0.0

    def __add__(self, other: Elements) -> Elements:
        return Elements(self.all + other.all, self.fixed + other.fixed)


@dataclass
class GraphBuilder:
    """Collects operators and edges, in the order of execution.

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
    hyper: list[list[float]] = field(default_factory=list)
    sizes: list[tuple[float, ...]] = field(default_factory=list)
    fixed: list[tuple[float, ...]] = field(default_factory=list)
    floating: list[bool] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def elements(self, elements: int, of_the_input: bool) -> Elements:
        """Those of a tensor, which depends on the network's input or does not."""
        if self.every_reached:
            return Elements(elements, 0.0 if of_the_input else elements)
        if elements and elements % self.batch**2 == 0:
            self.linear = False
        return Elements(elements, elements if elements % self.batch else 0.0)

    def add(
        self,
        word: str,
        operator: str,
        hyper: Mapping[str, float],
        read: Elements,
        written: Elements,
        weights: float,
        floating: bool,
        reads: Iterable[int],
    ) -> int:
        """Add the next operator; its number.

        Args:
            word: of the vocabulary.
            operator: what its library calls it, which is noted where the word is unknown.
            hyper: by HYPER_PARAMETERS, without those that are 0.
            read: elements of activations.
            written: elements of activations.
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
        self.hyper.append([hyper.get(name, 0.0) for name in HYPER_PARAMETERS])
        for sizes, a, b in ((self.sizes, read.all, written.all), (self.fixed, read.fixed, written.fixed)):
            # FLOPs are proportional to what is read and written, so their fixed parts are to theirs
            sizes.append((a, b, weights, flops(word, hyper, a, b)))
        self.floating.append(floating)
        self.edges |= dict.fromkeys((writer, here) for writer in reads)
        return here

    def graph(self, name: str) -> ComputationGraph:
        """What was collected, of the network of this name.

        Raises:
            InputError: nothing was collected.
        """
        if not self.words:
            raise InputError(f"{name} has no operator that computes something; give a network")
        return ComputationGraph(
            name=name,
            batch=self.batch,
            words=tuple(self.words),
            hyper_parameters=np.array(self.hyper, dtype=np.float64),
            sizes=np.array(self.sizes).reshape(-1, len(SIZES)),
            fixed=np.array(self.fixed).reshape(-1, len(SIZES)),
            floating=np.array(self.floating),
            edges=np.array(list(self.edges), dtype=np.int64).reshape(-1, 2).T,
            unknown=dict(self.unknown),
        )
