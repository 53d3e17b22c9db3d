"""Ours: its answer is a weighted mean over operators, or the sum of their seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy.features import node_features
from epochcast.analyzer.backends.occupancy.graph.computation_graph import join
from epochcast.analyzer.backends.occupancy.models import operator_mean
from epochcast.analyzer.backends.occupancy.models.operator_mean import MEMBERS, OperatorMean
from epochcast.analyzer.backends.occupancy.sample import Sample

MadeSample = Callable[..., Sample]


@pytest.fixture(scope="module")
def samples(made_sample: MadeSample) -> list[Sample]:
    return [made_sample(nodes, seed) for nodes in (1, 4, 9, 30) for seed in range(3)]


@pytest.fixture(scope="module")
def fitted(samples: list[Sample]) -> OperatorMean:
    return OperatorMean(epochs=4).fit(samples, np.linspace(0.05, 0.9, len(samples)))


@pytest.fixture(scope="module")
def timed(samples: list[Sample]) -> OperatorMean:
    return OperatorMean("seconds", epochs=4).fit(samples, np.geomspace(1e-4, 1e-1, len(samples)))


def twice(sample: Sample) -> Sample:
    graph = join("twice", (sample.graph, sample.graph))
    return Sample(sample.configuration, graph, sample.gpu)


def test_the_answer_is_the_mean_over_operators_one_by_one(fitted: OperatorMean, samples: list[Sample]) -> None:
    """Naive: each member, each operator, no collecting of those that are alike."""
    for sample in samples:
        told = []
        for network in fitted._members:
            rows = torch.from_numpy(fitted._standardiser.apply(node_features(sample)))
            occupancy = weight = 0.0
            for row in rows:
                raw, log_weight = network.layers(row).tolist()
                occupancy += np.exp(log_weight) / (1 + np.exp(-(raw + fitted._output.mean)))
                weight += np.exp(log_weight)
            told.append(occupancy / weight)
        assert fitted.predict([sample])[0] == pytest.approx(np.mean(told), rel=1e-4)


def test_a_network_run_twice_has_the_same_mean_and_takes_twice_as_long(
    fitted: OperatorMean, timed: OperatorMean, samples: list[Sample]
) -> None:
    both = [twice(sample) for sample in samples]
    assert fitted.predict(both) == pytest.approx(fitted.predict(samples), rel=1e-5)
    assert timed.predict(both) == pytest.approx(2 * timed.predict(samples), rel=1e-4)


def test_other_graphs_beside_it_change_no_answer(fitted: OperatorMean, samples: list[Sample]) -> None:
    alone = [fitted.predict([sample])[0] for sample in samples]
    assert fitted.predict(samples) == pytest.approx(np.array(alone), rel=1e-5)


@pytest.mark.parametrize("target", ["ratio", "seconds"])
def test_it_can_learn_any_few_graphs(samples: list[Sample], target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One member alone can: their mean is asked for above."""
    monkeypatch.setattr(operator_mean, "MEMBERS", 1)
    values = np.linspace(0.05, 0.9, len(samples)) if target == "ratio" else np.geomspace(1e-4, 1e-1, len(samples))
    model = OperatorMean(target, epochs=25).fit(samples, values)
    assert np.abs(model.predict(samples) / values - 1).mean() < 0.1


def test_a_seed_decides_the_weights_of_all_members(samples: list[Sample]) -> None:
    """Members alike would have a mean that is no better than one of them."""
    values = np.linspace(0.05, 0.9, len(samples))
    first, again, other = (OperatorMean(seed=seed, epochs=2).fit(samples, values) for seed in (1, 1, 2))
    assert (first.predict(samples) == again.predict(samples)).all()
    weights = {one.layers[0].weight.detach().numpy().tobytes() for model in (first, other) for one in model._members}
    assert len(weights) == 2 * MEMBERS
