"""Networks that are given as lists of layers and as modules: a training of either is one graph, so a fit answers for both."""

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from torch import nn  # noqa: E402

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module  # noqa: E402
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, Sample  # noqa: E402
from epochcast.analyzer.backends.occupancy.peak_memory import estimate  # noqa: E402
from epochcast.analyzer.backends.occupancy.step_features import step_features  # noqa: E402
from epochcast.regressor import load_catalog  # noqa: E402
from lab.occupancy.from_layers import ListedLayer, graph_of_layers  # noqa: E402
from lab.occupancy.graph_features import edge_features, node_features  # noqa: E402

A100 = load_catalog().resolve("A100 SXM4 40GB")
ACTIVATIONS = ("ReLU", "LeakyReLU", "ELU", "SELU", "PReLU", "GELU", "SiLU", "Mish", "Softplus", "Sigmoid", "Tanh", "Identity")
MOST_NODES = 80
BATCH = 2
"""Of the export; that of the training is another."""


def module(kind: str, channels: int, inputs: int, kernel: int, stride: int) -> nn.Module:
    """Of a kind of layer in lower letters; ``channels`` are those that it answers."""
    if kind == "conv2d":
        return nn.Conv2d(inputs, channels, kernel, stride, kernel // 2)
    if kind == "linear":
        return nn.Linear(inputs, channels)
    if kind.startswith("batch"):
        return nn.BatchNorm2d(channels) if kind == "batchnorm2d" else nn.BatchNorm1d(channels)
    others = {"adaptive_avg_pool2d": nn.AdaptiveAvgPool2d(1), "softmax": nn.Softmax(1), "dropout": nn.Dropout(0.2)}
    return others.get(kind) or next(getattr(nn, name)() for name in ACTIVATIONS if name.lower() == kind)


class Listed(nn.Module):
    """The module of a list of layers.

    What an operator reads of several others is added up; in dense networks it is put together, with the image where its
    channels are among those that are read.
    """

    def __init__(self, layers: Sequence[ListedLayer], graph: ComputationGraph, dense: bool) -> None:
        super().__init__()
        self.dense = dense
        self.reads: list[tuple[int, ...]] = []
        self.sizes = (graph.column("read") / graph.batch).tolist()
        parts, channels, rest = [], 0, iter(layers)
        for number, word in enumerate(graph.words):
            self.reads.append(tuple(graph.edges[0, graph.edges[1] == number].tolist()))
            if word == "average_pool" and graph.column("kernel_height")[number] == 2:  # between dense blocks, not listed
                parts.append(nn.AvgPool2d(2))
                continue
            kind = next(layer.kind for layer in rest if layer.kind != "Identity").lower()
            inputs, outputs, kernel, stride = (
                int(graph.column(name)[number]) for name in ("input_features", "output_features", "kernel_height", "stride")
            )
            channels = outputs if kind in ("conv2d", "linear") else channels
            parts.append(module(kind, channels, inputs, kernel, stride))
        self.parts = nn.ModuleList(parts)

    def forward(self, image: Any) -> Any:
        joined: dict[tuple[int, ...], Any] = {(): image}
        answers: list[Any] = []
        for part, reads, size in zip(self.parts, self.reads, self.sizes, strict=True):
            if reads not in joined:
                joined[reads] = self.join(image, [answers[number] for number in reads], size)
            x = joined[reads]
            answers.append(part(torch.flatten(x, 1) if isinstance(part, nn.Linear) else x))
        return answers[-1]

    def join(self, image: Any, given: list[Any], size: float) -> Any:
        if not self.dense:
            return sum(given[1:], given[0])
        if image[0].numel() + sum(one[0].numel() for one in given) == size:
            given = [image, *given]
        return torch.cat(given, 1) if len(given) > 1 else given[0]


def assert_same(own: ComputationGraph, listed: ComputationGraph, image: bool) -> None:
    assert own.words == listed.words
    for name in ("hyper_parameters", "sizes", "fixed", "floating", "edges"):
        np.testing.assert_array_equal(getattr(own, name), getattr(listed, name), err_msg=name)
    configuration = NetworkConfiguration(listed.name, listed.batch, image_size=16 if image else 0)
    one, other = (Sample(configuration, graph, A100) for graph in (own, listed))
    for features in (step_features, node_features, edge_features, estimate):
        np.testing.assert_array_equal(features(one), features(other))


def exported(layers: Sequence[ListedLayer], listed: ComputationGraph, dense: bool, shape: Sequence[int]) -> ComputationGraph:
    with torch.device("meta"):
        network, inputs = Listed(layers, listed, dense), torch.empty(BATCH, *shape)
    return graph_of_module(network, (inputs,), listed.name, BATCH)


def convolutions(*channels: int, kind: str = "ReLU", side: int = 8) -> list[ListedLayer]:
    layers = []
    for a, b in pairwise(channels):
        written = b * side**2
        layers += [ListedLayer("conv2d", written, b * (9 * a + 1)), ListedLayer("batchnorm2d", written, 2 * b)]
        layers += [ListedLayer(kind, written, 0), ListedLayer("dropout", written, 0)]
    return [*layers, ListedLayer("adaptive_avg_pool2d", channels[-1], 0), *head(channels[-1])]


def head(features: int) -> list[ListedLayer]:
    return [ListedLayer("linear", 5, 5 * (features + 1)), ListedLayer("softmax", 5, 0)]


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_every_activation(kind: str) -> None:
    layers = convolutions(3, 6, 8, kind=kind)
    listed = graph_of_layers("chain", layers, "uniform", 3, 8, batch=9)
    own = exported(layers, listed, False, (3, 8, 8))
    assert_same(own.at_batch(9).in_training(), listed, image=True)
    assert_same(own.in_training().at_batch(9), listed, image=True)


@pytest.mark.parametrize(("file", "families"), [("cnn", 7), ("mlp", 4)])
def test_measured_networks_of_every_family(shared_data: Path, file: str, families: int) -> None:
    table = pd.read_csv(shared_data / "occupancy" / f"measured_{file}.csv.gz")
    table["family"] = table["name"].str.extract(r"_arch:([a-z]+)")[0]
    table["count"] = table["layers"].str.count(r"\(")
    some = table[table["count"].between(8, MOST_NODES)].groupby("family").head(3)
    assert some["family"].nunique() == families
    for row in some.to_dict("records"):
        layers = [ListedLayer(*layer) for layer in ast.literal_eval(row["layers"])]
        channels = int(re.match(r"input(?:_channels)?:(\d+)", row["name"])[1])  # type: ignore[index]
        sided = re.search(r"_input_size:(\d+)", row["name"])
        side = int(sided[1]) if sided else 1
        listed = graph_of_layers(row["name"], layers, row["family"], channels, side, row["batch"])
        own = exported(layers, listed, row["family"] == "dense", (channels, side, side) if sided else (channels,))
        assert_same(own.at_batch(row["batch"]).in_training(), listed, bool(sided))
