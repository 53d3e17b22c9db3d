"""Graphs of different sizes as one batch of tensors: padded to the largest, like sizes together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from epochcast.analyzer.backends.occupancy.networks import Sample
from lab.occupancy.graph_features import Standardiser, both_ways, edge_features, node_features
from lab.occupancy.structure import FAR, RELATIONS, Structure, structure_of

PADDING = RELATIONS
"""The relation to an operator that is not there."""

_MOST_PAIRS = 2**22
"""Pairs of operators in a batch, padding included: 16 graphs of 512. Attention keeps some tens of numbers for each."""


_LEAST_FILLED = 0.75
"""Share of a batch that must be operators, not padding."""


@dataclass(frozen=True)
class EncodedGraph:
    """A sample as standardised tensors: nodes (n, NODE_FEATURES), edges (2, e), edge features (e, EDGE_FEATURES)."""

    nodes: Tensor
    edges: Tensor
    edge_features: Tensor
    structure: Structure

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class GraphBatch:
    """B graphs, each padded to N operators.

    Attributes:
        nodes: shape (B, N, NODE_FEATURES), 0 where there is no operator.
        present: shape (B, N), whether there is one.
        edges: shape (2, E), places in the B·N operators of all graphs, from and to.
        edge_features: shape (E, EDGE_FEATURES).
        edges_in, edges_out: shape (B, N), of each operator (see :class:`.structure.Structure`).
        relations: shape (B, N, N), of i to j, PADDING where there is no j.
    """

    nodes: Tensor
    present: Tensor
    edges: Tensor
    edge_features: Tensor
    edges_in: Tensor
    edges_out: Tensor
    relations: Tensor

    def to(self, device: torch.device) -> GraphBatch:
        """The same on another device."""
        return GraphBatch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def encode(sample: Sample, nodes: Standardiser, edges: Standardiser) -> EncodedGraph:
    """Features of a sample, and its structure; raises InputError where the graph is too large."""
    return EncodedGraph(
        torch.from_numpy(nodes.apply(node_features(sample))),
        torch.from_numpy(both_ways(sample.graph)),
        torch.from_numpy(edges.apply(edge_features(sample))),
        structure_of(sample.graph),
    )


def collate(graphs: Sequence[EncodedGraph]) -> GraphBatch:
    """One batch of graphs."""
    count, most = len(graphs), max(map(len, graphs))
    nodes = torch.zeros(count, most, graphs[0].nodes.shape[1])
    present = torch.zeros(count, most, dtype=torch.bool)
    relations = np.full((count, most, most), PADDING, dtype=np.int32)
    edges_in, edges_out = np.zeros((2, count, most), dtype=np.int64)
    for place, graph in enumerate(graphs):
        n, structure = len(graph), graph.structure
        nodes[place, :n] = graph.nodes
        present[place, :n] = True
        relations[place, :n, :n] = structure.relations
        relations[place, n:, :n] = FAR  # unused, but attention to nothing at all is NaN
        edges_in[place, :n], edges_out[place, :n] = structure.edges_in, structure.edges_out
    return GraphBatch(
        nodes,
        present,
        torch.cat([graph.edges + place * most for place, graph in enumerate(graphs)], dim=1),
        torch.cat([graph.edge_features for graph in graphs]),
        *map(torch.from_numpy, (edges_in, edges_out, relations)),
    )


def like_sizes(sizes: Sequence[int], chosen: Sequence[int]) -> Iterator[list[int]]:
    """Part graphs into batches with little padding and bounded memory.

    Args:
        sizes: operators of every graph.
        chosen: places of the graphs to part.

    Yields:
        Places of the graphs of one batch, the largest first; unless it is one graph, it has at most 2²² pairs of operators.
    """
    batch: list[int] = []
    operators = 0
    for place in sorted(chosen, key=lambda graph: -sizes[graph]):
        most, filled = sizes[batch[0]] if batch else 0, operators + sizes[place]
        if batch and ((len(batch) + 1) * most**2 > _MOST_PAIRS or filled < _LEAST_FILLED * most * (len(batch) + 1)):
            yield batch
            batch, operators = [], 0
        batch.append(place)
        operators += sizes[place]
    if batch:
        yield batch
