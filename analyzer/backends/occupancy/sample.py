"""What predictors learn from and answer for: a graph on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ....regressor import Gpu
from .configuration import NetworkConfiguration
from .graph.computation_graph import ComputationGraph


@dataclass(frozen=True)
class Sample:
    """A configuration, its graph at its batch size, and the GPU that it runs on."""

    configuration: NetworkConfiguration
    graph: ComputationGraph
    gpu: Gpu
