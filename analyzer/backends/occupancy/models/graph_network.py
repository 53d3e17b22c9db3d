"""A neural network as a model of occupancy: features, training and answers around any of the networks here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from epochcast.analyzer.backends.occupancy.features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Standardiser,
    edge_features,
    node_features,
)
from epochcast.analyzer.backends.occupancy.models.batching import EncodedGraph, encode
from epochcast.analyzer.backends.occupancy.models.output import Floats, Output
from epochcast.analyzer.backends.occupancy.models.structure import refuse_large
from epochcast.analyzer.backends.occupancy.models.training import FitSettings, answers_of, train
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError

_AT_ONCE = 64
"""Samples whose features are in memory together when predicting."""

_SCALES = ("mean", "scale")


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
    """Fits a network on a GPU where torch finds one, else on the CPU.

    Args:
        architecture: of the network.
        settings: how it is fitted; the seed is also that of its first weights.
        sizes: of the network, where they are not its own defaults.
    """

    def __init__(
        self,
        architecture: GraphArchitecture,
        settings: FitSettings,
        sizes: Mapping[str, Any] | None = None,
    ) -> None:
        self.architecture = architecture
        self.settings = settings
        self.sizes = dict(sizes or {})
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Train again.

        Raises:
            InputError: a value cannot be, a graph is too large, the loss becomes NaN, or the GPU's memory is too small.
        """
        self._output = Output.of(values, len(samples))
        self._nodes = Standardiser.fit([node_features(sample) for sample in samples])
        self._edges = Standardiser.fit([edge_features(sample) for sample in samples])
        graphs = [self._encoded(sample) for sample in samples]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.settings.seed)
            network = self.architecture(NODE_FEATURES, EDGE_FEATURES, **self.sizes)
        with _memory_refused():
            self._network = network.to(self._device)
            train(self._network, graphs, self._output.learnt(values), self.settings, self._device)
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """The quantity that was learnt, shape (n,).

        Raises:
            InputError: a graph is too large, or the GPU's memory is too small.
        """
        parts = [np.zeros(0)]
        with _memory_refused():
            for first in range(0, len(samples), _AT_ONCE):
                some = samples[first : first + _AT_ONCE]
                parts.append(answers_of(self._network, list(map(self._encoded, some)), self._device))
        return self._output.values(np.concatenate(parts))

    def _encoded(self, sample: Sample) -> EncodedGraph:
        if self.architecture.attends:
            refuse_large(sample.graph)
        return encode(sample, self._nodes, self._edges, self.architecture.structured)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        arrays = {f"network.{name}": value.cpu().numpy() for name, value in self._network.state_dict().items()}
        for name, standardiser in (("nodes", self._nodes), ("edges", self._edges)):
            arrays |= {f"{name}.{part}": getattr(standardiser, part) for part in _SCALES}
        return {"sizes": self.sizes, "output": self._output.state()}, arrays

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self.sizes, self._output = dict(settings["sizes"]), Output.restored(settings["output"])
        self._nodes, self._edges = (Standardiser(*(arrays[f"{of}.{part}"] for part in _SCALES)) for of in ("nodes", "edges"))
        network = self.architecture(NODE_FEATURES, EDGE_FEATURES, **self.sizes)
        weights = {
            name.removeprefix("network."): torch.from_numpy(array) for name, array in arrays.items() if "network." in name
        }
        network.load_state_dict(weights)
        self._network = network.to(self._device)
        return self


@contextmanager
def _memory_refused() -> Iterator[None]:
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(
            "the GPU has too little free memory to train or run the predictor; free some, or hide the GPU with "
            "CUDA_VISIBLE_DEVICES= to use the CPU"
        ) from error
