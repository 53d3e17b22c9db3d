"""Fitting a network to labelled graphs: Adam on the mean squared error (sections III-E and V)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, collate, like_sizes
from epochcast.analyzer.errors import InputError

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
    learnt: NDArray[np.float64],
    settings: FitSettings,
    device: torch.device,
) -> None:
    """Fit in place; on one CPU with the same number of threads, the same seed gives the same weights.

    The graphs of a step are drawn at random. They are then computed with others of like size, one group after the other: the
    gradient is that of all of them, without much padding.

    Args:
        network: takes a GraphBatch, gives one number per graph; ``least_filled`` as of :func:`.batching.like_sizes`.
        graphs: to learn from, n.
        learnt: what the network should answer, shape (n,).
        settings: how.
        device: where the network is.

    Raises:
        InputError: the loss is no longer a number.
    """
    optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
    targets = torch.tensor(learnt, dtype=torch.float32)
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


def answers_of(network: nn.Module, graphs: Sequence[EncodedGraph], device: torch.device) -> NDArray[np.float64]:
    """What a fitted network answers, shape (n,)."""
    network.eval()
    answers = torch.empty(len(graphs))
    with torch.no_grad():
        for group in like_sizes([len(graph) for graph in graphs], range(len(graphs)), network.least_filled):
            answer: Tensor = network(collate([graphs[place] for place in group]).to(device))
            answers[group] = answer.cpu()
    learnt: NDArray[np.float64] = answers.double().numpy()
    return learnt
