"""DNN-occu as a network: what may change its answers, and what must not."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Standardiser,
    edge_features,
    node_features,
)
from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, collate, encode, like_sizes
from epochcast.analyzer.backends.occupancy.models.dnn_occu import DnnOccu
from epochcast.analyzer.backends.occupancy.models.graph_network import GraphNetwork
from epochcast.analyzer.backends.occupancy.models.training import FitSettings, train
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError

MadeSample = Callable[..., Sample]

SMALL = {"width": 16, "heads": 2, "seeds": 2}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def samples(made_sample: MadeSample) -> list[Sample]:
    return [made_sample(nodes, seed) for seed, nodes in enumerate((1, 2, 5, 9, 12, 12, 20, 31))]


def network_of() -> torch.nn.Module:
    torch.manual_seed(3)
    return DnnOccu(NODE_FEATURES, EDGE_FEATURES, **SMALL).eval()


def encoded(samples: list[Sample]) -> list[EncodedGraph]:
    nodes = Standardiser.fit([node_features(sample) for sample in samples])
    edges = Standardiser.fit([edge_features(sample) for sample in samples])
    return [encode(sample, nodes, edges, DnnOccu.structured) for sample in samples]


def test_padding_and_other_graphs_change_no_answer(samples: list[Sample]) -> None:
    network, graphs = network_of(), encoded(samples)
    with torch.no_grad():
        alone = torch.cat([network(collate([graph])) for graph in graphs])
        together = network(collate(graphs))
        reversed_order = network(collate(graphs[::-1])).flip(0)
        training = network.train()(collate(graphs))
    torch.testing.assert_close(training, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(reversed_order, alone, atol=1e-5, rtol=1e-5)
    assert alone.std() > 5e-4, "graphs that all get one answer would pass any of these tests"


def test_the_gradient_reaches_each_parameter(samples: list[Sample]) -> None:
    network = network_of()
    network(collate(encoded(samples))).square().sum().backward()
    without = [
        name for name, parameter in network.named_parameters() if parameter.grad is None or not parameter.grad.abs().max() > 0
    ]
    assert not without


def renumbered(sample: Sample) -> Sample:
    """The same graph with its operators in another order."""
    graph = sample.graph
    order = np.random.default_rng(1).permutation(len(graph))
    place = np.argsort(order)
    return replace(
        sample,
        graph=replace(
            graph,
            words=tuple(graph.words[old] for old in order),
            hyper_parameters=graph.hyper_parameters[order],
            sizes=graph.sizes[order],
            fixed=graph.fixed[order],
            floating=graph.floating[order],
            edges=place[graph.edges],
        ),
    )


def rewired(sample: Sample) -> Sample:
    """The same operators with one edge that leads the other way."""
    edges = sample.graph.edges.copy()
    edges[:, 3] = edges[::-1, 3]
    return replace(sample, graph=replace(sample.graph, edges=edges))


def difference(samples: list[Sample], change: Callable[[Sample], Sample]) -> float:
    network, graphs = network_of(), encoded([*samples, change(samples[-1])])
    with torch.no_grad():
        before, after = network(collate(graphs[-2:-1])), network(collate(graphs[-1:]))
    return float((before - after).abs())


def test_the_numbers_of_operators_do_not_matter(samples: list[Sample]) -> None:
    assert difference(samples, renumbered) < 1e-5


def test_edges_matter_to_graph_networks(samples: list[Sample]) -> None:
    assert difference(samples, rewired) > 1e-6


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.floats(0, 1))
def test_batches_hold_each_graph_once_and_are_bounded(sizes: list[int], least_filled: float) -> None:
    groups = list(like_sizes(sizes, range(len(sizes)), least_filled))
    assert sorted(place for group in groups for place in group) == list(range(len(sizes)))
    for group in groups:
        held = [sizes[place] for place in group]
        assert held == sorted(held, reverse=True)
        assert sum(held) >= least_filled * len(held) * held[0]
        assert len(held) == 1 or len(held) * held[0] ** 2 <= 2**22
    for first, second in pairwise(groups):  # a group ends only where the next graph does not fit
        held = [*(sizes[place] for place in first), sizes[second[0]]]
        assert sum(held) < least_filled * len(held) * held[0] or len(held) * held[0] ** 2 > 2**22


def test_a_batch_keeps_each_graphs_own(samples: list[Sample]) -> None:
    graphs = encoded(samples)[2:5]
    batch = collate(graphs)
    assert batch.nodes.shape == (3, 12, NODE_FEATURES)
    ends = []
    for place, graph in enumerate(graphs):
        n = len(graph)
        torch.testing.assert_close(batch.nodes[place, :n], graph.nodes)
        assert batch.present[place].tolist() == [True] * n + [False] * (12 - n)
        assert not batch.nodes[place, n:].any()
        np.testing.assert_array_equal(batch.relations[place, :n, :n], graph.structure.relations)
        ends += [(12 * place + int(source), 12 * place + int(target)) for source, target in graph.edges.T]
    assert list(map(tuple, batch.edges.T.tolist())) == ends
    torch.testing.assert_close(batch.edge_features, torch.cat([graph.edge_features for graph in graphs]))


def test_groups_of_a_step_have_the_gradient_of_all(samples: list[Sample]) -> None:
    """One step of one epoch over graphs in groups is Adam's step on the mean loss of all of them."""
    learnt = np.linspace(0.1, 0.9, len(samples))
    graphs = encoded(samples)
    grouped, whole = network_of(), network_of()
    assert len(list(like_sizes([len(graph) for graph in graphs], range(len(graphs)), DnnOccu.least_filled))) > 2
    train(grouped, graphs, learnt, FitSettings(epochs=1), CPU)
    optimizer = torch.optim.Adam(whole.parameters(), 1e-4, weight_decay=1e-4)
    wanted = torch.tensor(learnt, dtype=torch.float32)
    torch.nn.functional.mse_loss(whole(collate(graphs)), wanted).backward()
    optimizer.step()
    for one, other in zip(grouped.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-3)


def fitted(samples: list[Sample], seed: int = 0) -> GraphNetwork:
    labels = np.linspace(0.1, 0.9, len(samples))
    return GraphNetwork(DnnOccu, FitSettings(2, seed), SMALL).fit(samples, labels)


def test_a_seed_gives_the_same_network_and_leaves_others_dice_alone(samples: list[Sample]) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first, again, other = fitted(samples), fitted(samples), fitted(samples, seed=1)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(first.predict(samples), again.predict(samples))
    assert np.abs(first.predict(samples) - other.predict(samples)).max() > 1e-4


def test_the_first_answers_are_about_the_mean_label(samples: list[Sample]) -> None:
    rare = np.full(len(samples), 0.05)
    untrained = GraphNetwork(DnnOccu, FitSettings(1, learning_rate=0.0), SMALL).fit(samples, rare)
    assert 0.02 < untrained.predict(samples).mean() < 0.15


@pytest.mark.parametrize("unit", [1.0, 1e10])
def test_what_is_kept_answers_alike(unit: float, samples: list[Sample], tmp_path: Path) -> None:
    labels = np.linspace(0.1, 0.9, len(samples)) * unit
    model = GraphNetwork(DnnOccu, FitSettings(1), SMALL).fit(samples, labels)
    settings, arrays = model.state()
    np.savez(tmp_path / "arrays.npz", **arrays)
    with np.load(tmp_path / "arrays.npz", allow_pickle=False) as kept:
        restored = GraphNetwork(DnnOccu, FitSettings(1)).restore(json.loads(json.dumps(settings)), dict(kept))
    answers = restored.predict(samples)
    np.testing.assert_array_equal(answers, model.predict(samples))
    assert (answers > 0).all() and 0.05 * unit < answers.mean() < 2 * unit


def test_a_loss_that_is_no_number_is_one_sentence(samples: list[Sample]) -> None:
    settings = FitSettings(epochs=9, learning_rate=float("inf"))
    with pytest.raises(InputError, match=r"the loss became nan in epoch \d of 9, so nothing was learnt"):
        GraphNetwork(DnnOccu, settings, sizes=SMALL).fit(samples, np.linspace(0.1, 0.9, len(samples)))


def test_attention_refuses_twenty_thousand_operators(made_sample: MadeSample, samples: list[Sample]) -> None:
    with pytest.raises(InputError, match="random20000 has 20000 operators"):
        fitted(samples).predict([samples[0], made_sample(20_000)])


def test_no_samples_have_no_answers(samples: list[Sample]) -> None:
    assert fitted(samples).predict([]).shape == (0,)
