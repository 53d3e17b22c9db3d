"""What predictors learn from and answer for: a graph on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.regressor import Gpu


@dataclass(frozen=True)
class Sample:
    """A configuration, its graph at its batch size, and the GPU that it runs on."""

    configuration: NetworkConfiguration
    graph: ComputationGraph
    gpu: Gpu
