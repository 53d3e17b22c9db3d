"""The layers of section III-D, against their equations as plain loops."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from lab.occupancy.dnn_occu import (
    AneeLayer,
    GraphormerLayer,
    RelationBias,
)

WIDTH, HEADS = 8, 2
Vector = np.ndarray


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def numbers(tensor: torch.Tensor) -> Vector:
    return tensor.detach().double().numpy()


def leaky(x: Vector) -> Vector:
    return np.where(x > 0, x, 0.01 * x)


def dense(layer: torch.nn.Linear, x: Vector) -> Vector:
    product = numbers(layer.weight) @ x
    return product if layer.bias is None else product + numbers(layer.bias)


def norm(layer: torch.nn.LayerNorm, x: Vector) -> Vector:
    return (x - x.mean()) / math.sqrt(x.var() + layer.eps) * numbers(layer.weight) + numbers(layer.bias)


def gelu(x: Vector) -> Vector:
    return np.array([one * (1 + math.erf(one / math.sqrt(2))) / 2 for one in x])


def ffn(layers: torch.nn.Sequential, x: Vector) -> Vector:
    return dense(layers[2], gelu(dense(layers[0], x)))


def heads(queries: list[Vector], keys: list[Vector], values: list[Vector], bias: Vector | None = None) -> list[Vector]:
    """Multi-head attention between projected rows, one number after the other."""
    part = WIDTH // HEADS
    seen = []
    for i, query in enumerate(queries):
        row = np.zeros(WIDTH)
        for head in range(HEADS):
            columns = slice(head * part, (head + 1) * part)
            scores = [float(query[columns] @ key[columns]) / math.sqrt(part) for key in keys]
            if bias is not None:
                scores = [score + bias[head, i, j] for j, score in enumerate(scores)]
            grown = [math.exp(score - max(scores)) for score in scores]
            for weight, value in zip(grown, values, strict=True):
                row[columns] += weight / sum(grown) * value[columns]
        seen.append(row)
    return seen


def random_rows(n: int) -> torch.Tensor:
    return torch.randn(n, WIDTH)


def naive_anee(layer: AneeLayer, nodes: Vector, edges: list[tuple[int, int]], features: Vector) -> tuple[Vector, Vector]:
    hidden = [leaky(dense(layer.of_node, row)) for row in nodes]
    a = np.concatenate([numbers(layer.of_source.weight)[0], numbers(layer.of_target.weight)[0]])
    itself = [(u, u) for u in range(len(nodes))]
    of_edge = [dense(layer.of_edge, row) for row in features] + [np.zeros(WIDTH)] * len(nodes)
    encoded = []
    for (s, d), row in zip(edges + itself, of_edge, strict=True):
        encoded.append(1 / (1 + np.exp(-(a @ np.concatenate([hidden[s], hidden[d]])) * row)))
    answers = []
    for u in range(len(nodes)):
        into = [place for place, (_, d) in enumerate(edges + itself) if d == u]
        scores = np.exp([dense(layer.message, encoded[place])[0] for place in into])
        weights = scores / scores.sum()
        answers.append(leaky(sum(w * hidden[(edges + itself)[place][0]] for w, place in zip(weights, into, strict=True))))
    return np.array(answers), np.array(encoded[: len(edges)])


def test_anee_is_its_equations() -> None:
    layer = AneeLayer(5, 3, WIDTH)
    nodes, features = torch.randn(6, 5), torch.randn(7, 3)
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (3, 5), (4, 5)]
    answer, encoded = layer(nodes, torch.tensor(edges).T, features)
    expected = naive_anee(layer, numbers(nodes), edges, numbers(features))
    np.testing.assert_allclose(numbers(answer), expected[0], atol=1e-5)
    np.testing.assert_allclose(numbers(encoded), expected[1], atol=1e-5)


def test_graphormer_is_its_equations() -> None:
    layer, bias = GraphormerLayer(WIDTH, HEADS), RelationBias(HEADS)
    with torch.no_grad():
        bias.of_relation.normal_()
    nodes, relations = random_rows(5), torch.randint(0, 40, (5, 5), dtype=torch.int32)
    table = numbers(bias.of_relation)
    naive_bias = np.array([[[table[head, relations[i, j]] for j in range(5)] for i in range(5)] for head in range(HEADS)])
    rows = [numbers(row) for row in nodes]
    projected = [dense(layer.query_key_value, norm(layer.before_attention, row)).reshape(3, WIDTH) for row in rows]
    seen = heads(*([one[part] for one in projected] for part in range(3)), bias=naive_bias)
    hidden = [dense(layer.joined, one) + row for one, row in zip(seen, rows, strict=True)]
    expected = [ffn(layer.feed_forward, norm(layer.before_feed_forward, row)) + row for row in hidden]
    answer = layer(nodes[None], bias(relations[None]))[0]
    np.testing.assert_allclose(numbers(answer), expected, atol=1e-5)
