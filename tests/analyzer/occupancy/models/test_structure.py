"""Hops between operators, against a plain breadth-first search."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.graph.computation_graph import EDGE_TYPES
from epochcast.analyzer.backends.occupancy.models.structure import FAR, FARTHEST, LARGEST_GRAPH, MOST_EDGES, structure_of
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError

MadeSample = Callable[..., Sample]


def naive_hops(n: int, arrows: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    hops = {}
    for start in range(n):
        hops[start, start] = 0
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for source, target in arrows:
                if source == here and (start, target) not in hops:
                    hops[start, target] = hops[start, here] + 1
                    waiting.append(target)
    return hops


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_relations_are_hops_forward_or_backward(made_sample: MadeSample, n: int, seed: int) -> None:
    graph = made_sample(n, seed).graph
    structure = structure_of(graph)
    arrows = [(int(source), int(target)) for source, target in graph.edges.T]
    hops = naive_hops(n, arrows)
    for i in range(n):
        for j in range(n):
            forward, backward = hops.get((i, j), FAR), hops.get((j, i), FAR)
            expected = FAR
            if forward <= FARTHEST:
                expected = forward
            elif backward <= FARTHEST:
                expected = FARTHEST + backward
            assert structure.relations[i, j] == expected
    assert structure.edges_in.tolist() == [min(MOST_EDGES, sum(target == i for _, target in arrows)) for i in range(n)]
    assert structure.edges_out.tolist() == [min(MOST_EDGES, sum(source == i for source, _ in arrows)) for i in range(n)]


def test_a_structure_is_found_once_for_all_batches(made_sample: MadeSample) -> None:
    assert structure_of(made_sample(30, batch=1).graph) is structure_of(made_sample(30, batch=128).graph)


def test_many_edges_count_as_the_most(made_sample: MadeSample) -> None:
    graph = made_sample(MOST_EDGES + 5).graph
    fan = np.stack([np.zeros(len(graph) - 1, dtype=np.int64), np.arange(1, len(graph))])
    types = np.zeros(fan.shape[1], dtype=np.int64)
    assert structure_of(replace(graph, edges=fan, edge_types=types)).edges_out[0] == MOST_EDGES


def test_the_way_back_of_gradients_is_no_way_between_operators(made_sample: MadeSample) -> None:
    graph = made_sample(12).graph
    both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    types = np.concatenate([graph.edge_types, np.full(graph.edges.shape[1], EDGE_TYPES.index("backward"))])
    training, forward = structure_of(replace(graph, edges=both, edge_types=types)), structure_of(graph)
    assert (training.relations == forward.relations).all()
    assert (training.edges_in == forward.edges_in).all()


def test_a_graph_that_is_too_large_is_one_sentence(made_sample: MadeSample) -> None:
    with pytest.raises(InputError, match=f"random20000 has 20000 operators, but .* up to {LARGEST_GRAPH}; use a model without"):
        structure_of(made_sample(20_000).graph)
