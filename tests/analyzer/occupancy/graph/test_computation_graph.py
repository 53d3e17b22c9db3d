"""Rescaling and joining of graphs."""

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph, GraphBuilder


def residual(batch: int = 4) -> ComputationGraph:
    """A dense layer, a second one whose dropped answer is added to it, a mask, and a concatenation of all."""
    builder, x, mask = GraphBuilder(batch), np.array([6.0 * batch, 0.0]), np.array([6.0, 6.0])
    builder.add("linear", "linear", {"reduced": 6.0}, x, x, 36.0, True, [])
    builder.add("linear", "linear", {"reduced": 6.0}, x, x, 36.0, True, [0])
    builder.add("dropout", "dropout", {}, x, x, 0.0, True, [1])
    builder.add("add", "add", {}, x + x, x, 0.0, True, [2, 0])
    builder.add("create", "triu", {}, np.zeros(2), mask, 0.0, True, [])
    builder.add("unknown", "mine::op", {}, x + mask, x, 0.0, True, [3, 4])
    builder.add("concatenate", "cat", {}, 2 * x, 2 * x, 0.0, True, [3, 5])
    return builder.graph("residual")


def test_what_is_read_and_written_and_its_flops() -> None:
    graph = residual(batch=4)
    assert graph.column("read").tolist() == [24, 24, 24, 48, 0, 30, 48]
    assert graph.column("flops").tolist()[:4] == [2 * 24 * 6, 2 * 24 * 6, 24, 24]
    assert graph.column("weights").tolist()[:3] == [36, 36, 0]
    assert graph.unknown == {"mine::op": 1}


@pytest.mark.parametrize("batch", [1, 7])
def test_another_batch_is_what_would_be_read_at_it(batch: int) -> None:
    rescaled, fresh = residual().at_batch(batch), residual(batch)
    np.testing.assert_allclose(rescaled.sizes, fresh.sizes)
    np.testing.assert_allclose(rescaled.fixed, fresh.fixed)
    assert rescaled.batch == batch


@pytest.mark.parametrize("batch", [1, 4])
def test_in_training_sums_are_edges(batch: int) -> None:
    graph = residual().in_training().at_batch(batch)
    assert graph.words == ("linear", "linear", "dropout", "create", "unknown", "concatenate"), "what goes out remains"
    edges = [(0, 1), (1, 2), (0, 4), (2, 4), (3, 4), (0, 5), (2, 5), (4, 5)]
    assert sorted(map(tuple, graph.edges.T.tolist())) == sorted(edges)
    assert graph.in_training() is graph and graph.in_inference().words.count("add") == 1
