"""Fitting a network to labelled graphs: Adam on the mean squared error (sections III-E and V)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Standardiser,
    edge_features,
    node_features,
)
from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, collate, like_sizes
from epochcast.analyzer.backends.occupancy.models.graph_network import SCALES, GraphArchitecture, GraphNetwork, memory_refused
from epochcast.analyzer.backends.occupancy.models.trees import Floats
from epochcast.analyzer.errors import InputError
from lab.occupancy.learnt import learnt, output_of

Progress = Callable[[int, int, float], object]


@dataclass(frozen=True)
class FitSettings:
    """How a network is fitted. The rates are the paper's; it gives neither epochs nor how many graphs a step sees.

    Args:
        epochs: how often each graph is seen. The weights after the last one are kept: no rows are set aside to choose by.
        seed: of the order of the graphs.
        learning_rate, weight_decay: of Adam.
        graphs_per_step: whose gradients are summed.
        progress: called after each epoch: epoch from 1, epochs, mean loss of the epoch.
    """

    epochs: int
    seed: int = 0
    learning_rate: float = 1e-4
    weight_decay: float = 1e-4
    graphs_per_step: int = 16
    progress: Progress | None = None


def train(
    network: nn.Module,
    graphs: Sequence[EncodedGraph],
    wanted: NDArray[np.float64],
    settings: FitSettings,
    device: torch.device,
) -> None:
    """Fit in place; on one CPU with the same number of threads, the same seed gives the same weights.

    The graphs of a step are drawn at random. They are then computed with others of like size, one group after the other: the
    gradient is that of all of them, without much padding.

    Args:
        network: takes a GraphBatch, gives one number per graph; ``least_filled`` as of :func:`.batching.like_sizes`.
        graphs: to learn from, n.
        wanted: what the network should answer, shape (n,).
        settings: how.
        device: where the network is.

    Raises:
        InputError: the loss is no longer a number.
    """
    optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
    targets = torch.tensor(wanted, dtype=torch.float32)
    sizes = [len(graph) for graph in graphs]
    order = np.random.default_rng(settings.seed)
    network.train()
    for epoch in range(1, settings.epochs + 1):
        total = 0.0
        places = order.permutation(len(graphs))
        for first in range(0, len(places), settings.graphs_per_step):
            step = places[first : first + settings.graphs_per_step]
            optimizer.zero_grad()
            for group in like_sizes(sizes, step.tolist(), network.least_filled):
                answers = network(collate([graphs[place] for place in group]).to(device))
                squares = ((answers - targets[group].to(device)) ** 2).sum()
                (squares / len(step)).backward()
                total += float(squares.detach())
            optimizer.step()
        loss = total / len(graphs)
        if not math.isfinite(loss):
            raise InputError(
                f"the loss became {loss} in epoch {epoch} of {settings.epochs}, so nothing was learnt; "
                "train with another seed, or leave out rows with extreme sizes"
            )
        if settings.progress is not None:
            settings.progress(epoch, settings.epochs, loss)


class TrainedNetwork(GraphNetwork):
    """Fits a network on a GPU where torch finds one, else on the CPU.

    Args:
        architecture: of the network.
        settings: how it is fitted; the seed is also that of its first weights.
        sizes: of the network, where they are not its own defaults.
    """

    def __init__(self, architecture: GraphArchitecture, settings: FitSettings, sizes: Mapping[str, Any] | None = None) -> None:
        super().__init__(architecture, sizes)
        self.settings = settings

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Train again.

        Raises:
            InputError: a value cannot be, a graph is too large, the loss becomes NaN, or the GPU's memory is too small.
        """
        self._output = output_of(values, len(samples))
        self._nodes = Standardiser.fit([node_features(sample) for sample in samples])
        self._edges = Standardiser.fit([edge_features(sample) for sample in samples])
        graphs = [self._encoded(sample) for sample in samples]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.settings.seed)
            network = self.architecture(NODE_FEATURES, EDGE_FEATURES, **self.sizes)
        with memory_refused():
            self._network = network.to(self._device)
            train(self._network, graphs, learnt(self._output, values), self.settings, self._device)
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        arrays = {f"network.{name}": value.cpu().numpy() for name, value in self._network.state_dict().items()}
        for name, standardiser in (("nodes", self._nodes), ("edges", self._edges)):
            arrays |= {f"{name}.{part}": getattr(standardiser, part) for part in SCALES}
        return {"sizes": self.sizes, "output": asdict(self._output)}, arrays
