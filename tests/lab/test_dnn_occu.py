"""DNN-occu as a network: what may change its answers, what must not, and hops against a plain breadth-first search."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.errors import InputError

from .made_samples import made_sample

pytest.importorskip("torch")

import torch

from lab.occupancy.batching import collate, encode
from lab.occupancy.dnn_occu import DnnOccu
from lab.occupancy.graph_features import EDGE_FEATURES, NODE_FEATURES, Standardiser, edge_features, node_features
from lab.occupancy.network import TrainedNetwork
from lab.occupancy.structure import FAR, FARTHEST, MOST_EDGES, structure_of

SAMPLES = [made_sample(nodes, seed) for seed, nodes in enumerate((1, 2, 5, 9, 12, 12, 20, 31))]


def test_padding_and_other_graphs_change_no_answer() -> None:
    torch.manual_seed(3)
    network = DnnOccu(NODE_FEATURES, EDGE_FEATURES, width=16, heads=2, seeds=2)
    nodes = Standardiser.fit([node_features(sample) for sample in SAMPLES])
    edges = Standardiser.fit([edge_features(sample) for sample in SAMPLES])
    graphs = [encode(sample, nodes, edges) for sample in SAMPLES]
    together = network(collate(graphs))
    with torch.no_grad():
        alone = torch.cat([network(collate([graph])) for graph in graphs])
        reversed_order = network(collate(graphs[::-1])).flip(0)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(reversed_order, alone, atol=1e-5, rtol=1e-5)
    assert alone.std() > 5e-4, "graphs that all get one answer would pass any of these tests"
    together.square().sum().backward()
    without = [name for name, own in network.named_parameters() if own.grad is None or not own.grad.abs().max() > 0]
    assert not without


def test_it_learns_and_refuses_what_cannot_be() -> None:
    labels = np.linspace(0.1, 0.9, len(SAMPLES))
    answers = TrainedNetwork(0, 1).fit(SAMPLES, labels).predict(SAMPLES)
    assert (answers > 0).all() and 0.05 < answers.mean() < 2
    with pytest.raises(InputError, match="cannot train for 0 epochs"):
        TrainedNetwork(0, 0).fit(SAMPLES, labels)


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
def test_relations_are_hops_forward_or_backward(n: int, seed: int) -> None:
    graph = made_sample(n, seed).graph
    structure = structure_of(graph)
    arrows = [(int(source), int(target)) for source, target in graph.edges.T]
    hops = naive_hops(n, arrows)
    for i in range(n):
        for j in range(n):
            forward, backward = hops.get((i, j), FAR), hops.get((j, i), FAR)
            expected = forward if forward <= FARTHEST else FARTHEST + backward if backward <= FARTHEST else FAR
            assert structure.relations[i, j] == expected
    assert structure.edges_in.tolist() == [min(MOST_EDGES, sum(target == i for _, target in arrows)) for i in range(n)]
    assert structure.edges_out.tolist() == [min(MOST_EDGES, sum(source == i for source, _ in arrows)) for i in range(n)]
