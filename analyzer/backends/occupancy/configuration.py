"""One network with its input sizes, and as a graph on a GPU: what labels belong to, and what is predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.regressor import Gpu

WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of a number, by precision."""


@dataclass(frozen=True)
class NetworkConfiguration:
    """A network as it runs; 0 where a size does not apply (Table II of the DNN-occu paper).

    Args:
        network: name, see :mod:`.networks`.
        batch: samples of one step.
        channels: of the input image.
        image_size: side of the square image, pixels.
        sequence: tokens, or steps of a recurrent network.
        hidden: width of a recurrent network.
        layers: of a recurrent network.
        precision: ``fp32``, ``fp16`` or ``bf16``.
    """

    network: str
    batch: int
    channels: int = 0
    image_size: int = 0
    sequence: int = 0
    hidden: int = 0
    layers: int = 0
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
