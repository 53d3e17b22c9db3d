"""A neural network as a model of occupancy: features and answers around any of the networks here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Standardiser,
)
from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, collate, encode, like_sizes
from epochcast.analyzer.backends.occupancy.models.structure import refuse_large
from epochcast.analyzer.backends.occupancy.models.trees import Floats, Output
from epochcast.analyzer.errors import InputError

_AT_ONCE = 64
"""Samples whose features are in memory together when predicting."""

SCALES = ("mean", "scale")
"""Parts of a standardiser."""


class GraphArchitecture(Protocol):
    """A network's class.

    Attributes:
        structured: whether it looks at :mod:`.structure`.
        attends: whether each operator looks at all others, which bounds the size of graphs.
        least_filled: what share of a batch should be operators, not padding, 0..1.
    """

    structured: bool
    attends: bool
    least_filled: float

    def __call__(self, nodes: int, edges: int, **sizes: Any) -> nn.Module:
        """Make the network for these numbers of features of an operator and of an edge."""
        ...


class GraphNetwork:
    """Runs a fitted network on a GPU where torch finds one, else on the CPU.

    Args:
        architecture: of the network.
        sizes: of the network, where they are not its own defaults.
    """

    def __init__(self, architecture: GraphArchitecture, sizes: Mapping[str, Any] | None = None) -> None:
        self.architecture = architecture
        self.sizes = dict(sizes or {})
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """The quantity that was learnt, shape (n,).

        Raises:
            InputError: a graph is too large, or the GPU's memory is too small.
        """
        parts = [np.zeros(0)]
        with memory_refused():
            for first in range(0, len(samples), _AT_ONCE):
                some = samples[first : first + _AT_ONCE]
                parts.append(answers_of(self._network, list(map(self._encoded, some)), self._device))
        return self._output.values(np.concatenate(parts))

    def _encoded(self, sample: Sample) -> EncodedGraph:
        if self.architecture.attends:
            refuse_large(sample.graph)
        return encode(sample, self._nodes, self._edges, self.architecture.structured)

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what was fitted: numbers as JSON, and arrays."""
        self.sizes, self._output = dict(settings["sizes"]), Output.restored(settings["output"])
        self._nodes, self._edges = (Standardiser(*(arrays[f"{of}.{part}"] for part in SCALES)) for of in ("nodes", "edges"))
        network = self.architecture(NODE_FEATURES, EDGE_FEATURES, **self.sizes)
        weights = {
            name.removeprefix("network."): torch.from_numpy(array) for name, array in arrays.items() if "network." in name
        }
        network.load_state_dict(weights)
        self._network = network.to(self._device)
        return self


@contextmanager
def memory_refused() -> Iterator[None]:
    """Raise InputError where the GPU's memory is too small."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(
            "the GPU has too little free memory to train or run the predictor; free some, or hide the GPU with "
            "CUDA_VISIBLE_DEVICES= to use the CPU"
        ) from error


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
