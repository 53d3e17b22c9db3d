"""DNN-occu as a network: what may change its answers, and what must not."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Standardiser,
    edge_features,
    node_features,
)
from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, collate, encode
from epochcast.analyzer.backends.occupancy.models.dnn_occu import DnnOccu
from epochcast.analyzer.backends.occupancy.models.graph_network import GraphNetwork
from epochcast.analyzer.errors import InputError
from lab.occupancy.training import FitSettings, TrainedNetwork

MadeSample = Callable[..., Sample]

SMALL = {"width": 16, "heads": 2, "seeds": 2}


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


@pytest.mark.parametrize("unit", [1.0, 1e10])
def test_what_is_kept_answers_alike(unit: float, samples: list[Sample], tmp_path: Path) -> None:
    labels = np.linspace(0.1, 0.9, len(samples)) * unit
    model = TrainedNetwork(DnnOccu, FitSettings(1), SMALL).fit(samples, labels)
    settings, arrays = model.state()
    np.savez(tmp_path / "arrays.npz", **arrays)
    with np.load(tmp_path / "arrays.npz", allow_pickle=False) as kept:
        restored = GraphNetwork(DnnOccu).restore(json.loads(json.dumps(settings)), dict(kept))
    answers = restored.predict(samples)
    np.testing.assert_array_equal(answers, model.predict(samples))
    assert (answers > 0).all() and 0.05 * unit < answers.mean() < 2 * unit


def test_a_loss_that_is_no_number_is_one_sentence(samples: list[Sample]) -> None:
    settings = FitSettings(epochs=9, learning_rate=float("inf"))
    with pytest.raises(InputError, match=r"the loss became nan in epoch \d of 9, so nothing was learnt"):
        TrainedNetwork(DnnOccu, settings, sizes=SMALL).fit(samples, np.linspace(0.1, 0.9, len(samples)))
