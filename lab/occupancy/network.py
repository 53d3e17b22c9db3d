"""Fitting DNN-occu to labelled graphs: Adam on the mean squared error (sections III-E and V)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor

from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.analyzer.errors import InputError
from lab.occupancy.batching import EncodedGraph, collate, encode, like_sizes
from lab.occupancy.dnn_occu import DnnOccu
from lab.occupancy.graph_features import EDGE_FEATURES, NODE_FEATURES, Standardiser, edge_features, node_features
from lab.occupancy.models import Floats, moments_of

# The rates are the paper's; it gives neither epochs nor how many graphs a step sees.
_LEARNING_RATE = _WEIGHT_DECAY = 1e-4
_GRAPHS_PER_STEP = 16


@dataclass
class TrainedNetwork:
    """Fits and runs the network on a GPU where torch finds one, else on the CPU.

    Args:
        seed: of its first weights and of the order of the graphs.
        epochs: how often each graph is seen. The weights after the last one are kept: no rows are set aside to choose by.
    """

    seed: int
    epochs: int
    network: DnnOccu = field(init=False)

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Train again; on one CPU with the same number of threads, the same seed gives the same weights.

        Raises:
            InputError: a value cannot be, a graph is too large, there is no epoch, or the loss becomes NaN.
        """
        if self.epochs < 1:
            raise InputError(f"cannot train for {self.epochs} epochs; give 1 or more")
        self.mean, self.scale = moments_of(values, len(samples))
        self.nodes = Standardiser.fit([node_features(sample) for sample in samples])
        self.edges = Standardiser.fit([edge_features(sample) for sample in samples])
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        graphs = [encode(sample, self.nodes, self.edges) for sample in samples]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            self.network = DnnOccu(NODE_FEATURES, EDGE_FEATURES).to(self.device)
        self._train(graphs, torch.tensor((np.log(values) - self.mean) / self.scale, dtype=torch.float32))
        return self

    def _train(self, graphs: Sequence[EncodedGraph], targets: Tensor) -> None:
        """The graphs of a step are drawn at random, then computed with others of like size: without much padding."""
        optimizer = torch.optim.Adam(self.network.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        sizes = [len(graph) for graph in graphs]
        order = np.random.default_rng(self.seed)
        self.network.train()
        for epoch in range(1, self.epochs + 1):
            total = 0.0
            places = order.permutation(len(graphs))
            for first in range(0, len(places), _GRAPHS_PER_STEP):
                step = places[first : first + _GRAPHS_PER_STEP]
                optimizer.zero_grad()
                for group in like_sizes(sizes, step.tolist()):
                    answers = self.network(collate([graphs[place] for place in group]).to(self.device))
                    squares = ((answers - targets[group].to(self.device)) ** 2).sum()
                    (squares / len(step)).backward()
                    total += float(squares.detach())
                optimizer.step()
            if not math.isfinite(total):
                raise InputError(
                    f"the loss became {total} in epoch {epoch} of {self.epochs}, so nothing was learnt; "
                    "train with another seed, or leave out rows with extreme sizes"
                )

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """The quantity that was learnt, shape (n,); a graph that is too large raises InputError."""
        graphs = [encode(sample, self.nodes, self.edges) for sample in samples]
        self.network.eval()
        answers = torch.empty(len(graphs))
        with torch.no_grad():
            for group in like_sizes([len(graph) for graph in graphs], range(len(graphs))):
                answers[group] = self.network(collate([graphs[place] for place in group]).to(self.device)).cpu()
        return np.asarray(np.exp(self.mean + self.scale * answers.double().numpy()))
