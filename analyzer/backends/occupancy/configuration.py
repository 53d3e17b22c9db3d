"""One network with its input sizes, and as a graph on a GPU: what labels belong to, and what is predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.regressor import Gpu

WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of a number, by precision."""


@dataclass(frozen=True)
class NetworkConfiguration:
    """A network as it runs (Table II of the DNN-occu paper); its sizes are the question's, 0 where one does not apply."""

    network: str
    batch: int
    image_size: int = 0
    sequence: int = 0
    precision: str = "fp32"

    @property
    def one_sample(self) -> NetworkConfiguration:
        """What an export depends on: the batch and the precision only rescale it."""
        return replace(self, batch=1, precision="fp32")

    @property
    def is_factory(self) -> bool:
        """Whether the network is a user's own ``package.module:factory``."""
        return ":" in self.network and self.network.split(":")[0] not in ("torchvision", "timm")


@dataclass(frozen=True)
class Sample:
    """A configuration, its graph at its batch size, and the GPU that it runs on."""

    configuration: NetworkConfiguration
    graph: ComputationGraph
    gpu: Gpu
