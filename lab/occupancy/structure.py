"""The positions of operators in a graph: the hops between any two, for attention that looks at all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.errors import InputError

FARTHEST = 20
"""Hops that are distinguished."""
FAR = 2 * FARTHEST + 1
"""The relation of operators that are farther apart than FARTHEST hops, or that no path joins."""
RELATIONS = FAR + 1
"""How many relations there are: 0 for the operator itself, 1 to FARTHEST hops forward, the same backward, FAR."""

MOST_EDGES = 16
"""Edges into or out of an operator beyond which all counts are alike."""

LARGEST_GRAPH = 4096
"""Operators of the largest graph that attention takes: it has numbers for each pair of them, in training of DNN-occu 1.3 GiB.
The largest graph of the paper has 2664."""

_ROWS = 512


@dataclass(frozen=True)
class Structure:
    """The part of a graph that does not change with its batch size.

    Attributes:
        relations: shape (n, n): [i, j] is the relation of i to j.
        edges_in, edges_out: of each operator, shape (n,), up to MOST_EDGES.
    """

    relations: NDArray[np.uint8]
    edges_in: NDArray[np.int64]
    edges_out: NDArray[np.int64]


def structure_of(graph: ComputationGraph) -> Structure:
    """Found once for all batch sizes of a network, and kept in memory.

    Hops are Graphormer's shortest-path distances; its authors had undirected graphs; here the direction counts, too.

    Raises:
        InputError: the graph has more than LARGEST_GRAPH operators.
    """
    if len(graph) > LARGEST_GRAPH:
        raise InputError(
            f"{graph.name} has {len(graph)} operators, but attention between all of them takes up to {LARGEST_GRAPH}; use trees"
        )
    return _structure(len(graph), np.ascontiguousarray(graph.edges).tobytes())


@lru_cache(maxsize=64)
def _structure(n: int, edges: bytes) -> Structure:
    source, target = np.frombuffer(edges, dtype=np.int64).reshape(2, -1)
    arrows = csr_array((np.ones(len(source)), (source, target)), shape=(n, n))
    relations = np.full((n, n), FAR, dtype=np.uint8)
    for first in range(0, n, _ROWS):  # 8 bytes for every pair of operators would be too much for large graphs
        rows = np.arange(first, min(first + _ROWS, n))
        hops = dijkstra(arrows, indices=rows, unweighted=True, limit=FARTHEST)
        i, j = np.nonzero(np.isfinite(hops))
        hop = hops[i, j].astype(np.uint8)
        relations[rows[i], j] = hop
        relations[j, rows[i]] = np.where(hop > 0, hop + FARTHEST, 0)
    return Structure(relations, _counted(target, n), _counted(source, n))


def _counted(ends: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.minimum(np.bincount(ends, minlength=n), MOST_EDGES)
