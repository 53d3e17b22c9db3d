"""Rescaling, joining and memory of graphs."""

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.graph_builder import Delivery, Elements, GraphBuilder


def two_operators(batch: int = 4) -> ComputationGraph:
    """A dense layer 3 → 5 and an addition of a mask that is the same for every batch."""
    builder = GraphBuilder(batch)
    x, y = Elements(3.0 * batch), Elements(5.0 * batch)
    first = builder.add("linear", "linear", {"reduced": 3.0, "output_features": 5.0}, x, y, 20.0, True, [])
    builder.add("add", "add", {}, y + Elements(5.0, 5.0), y, 0.0, True, [Delivery(first, True, y)])
    builder.add("unknown", "mine::op", {}, y, Elements(), 0.0, False, [Delivery(first, False, y), Delivery(1, False, y)])
    return builder.graph("two")


def test_what_is_read_and_written_and_its_flops() -> None:
    graph = two_operators(batch=4)
    assert graph.column("read").tolist() == [12, 25, 20]
    assert graph.column("written").tolist() == [20, 20, 0]
    assert graph.column("flops").tolist() == [2 * 20 * 3, 20, 0]
    assert graph.column("weights").tolist() == [20, 0, 0]
    assert graph.column("reduced").tolist() == [3, 0, 0]
    assert graph.edges.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert graph.edge_types.tolist() == [1, 0, 0]
    assert graph.unknown == {"mine::op": 1}


@pytest.mark.parametrize("batch", [1, 7])
def test_another_batch_is_what_would_be_read_at_it(batch: int) -> None:
    rescaled, fresh = two_operators().at_batch(batch), two_operators(batch)
    np.testing.assert_allclose(rescaled.sizes, fresh.sizes)
    np.testing.assert_allclose(rescaled.edge_elements, fresh.edge_elements)
    np.testing.assert_allclose(rescaled.fixed, fresh.fixed)
    assert rescaled.batch == batch


def residual(batch: int = 4) -> ComputationGraph:
    """A dense layer, a second one whose dropped answer is added to it, a mask, and a concatenation of all."""
    builder, x, mask = GraphBuilder(batch), Elements(6.0 * batch), Elements(6.0, 6.0)
    builder.add("linear", "linear", {"reduced": 6.0}, x, x, 36.0, True, [])
    builder.add("linear", "linear", {"reduced": 6.0}, x, x, 36.0, True, [Delivery(0, False, x)])
    builder.add("dropout", "dropout", {}, x, x, 0.0, True, [Delivery(1, False, x)])
    builder.add("add", "add", {}, x + x, x, 0.0, True, [Delivery(2, False, x), Delivery(0, True, x)])
    builder.add("create", "triu", {}, Elements(), mask, 0.0, True, [])
    builder.add("add", "add", {}, x + mask, x, 0.0, True, [Delivery(3, False, x), Delivery(4, False, mask)])
    both = Elements(12.0 * batch)
    builder.add("concatenate", "cat", {}, both, both, 0.0, True, [Delivery(3, False, x), Delivery(5, False, x)])
    return builder.graph("residual")


@pytest.mark.parametrize("batch", [1, 4])
def test_in_training_sums_are_edges_and_gradients_come_back(batch: int) -> None:
    graph = residual().in_training().at_batch(batch)
    assert graph.words == ("linear", "linear", "dropout", "create", "add", "concatenate"), "what goes out remains"
    forward = [(0, 1, 0, 6), (0, 4, 1, 6), (2, 4, 0, 6), (3, 4, 0, 6 / batch), (1, 2, 0, 6)]
    forward += [(0, 5, 1, 6), (2, 5, 0, 6), (4, 5, 0, 6)]
    backward = [(reader, writer, 2, elements) for writer, reader, _, elements in forward]
    edges = zip(*graph.edges.tolist(), graph.edge_types.tolist(), (graph.edge_elements / batch).tolist(), strict=True)
    assert sorted(edges) == sorted([*forward, *backward])
    assert graph.column("read").tolist() == [6 * batch] * 3 + [0, 6 * batch + 6, 12 * batch], "each reads what it read"
    assert graph.in_training() is graph
