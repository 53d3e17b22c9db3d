"""Data sheets alone: every operator at the GPU's peak or its memory's, every link at its line rate, the same schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from lab.distributed.operator_roofline import Roofline

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

IDEAL = Coefficients(gap=0.0, node_link=1.0, network=1.0, optimizer=1.0, doubling=0.0)
"""Nothing is lost anywhere."""


def predict(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """Learns nothing: coefficients are not looked at."""
    times = Roofline(cluster.gpu, job.traced_precision, job.fused_kernels)
    return iteration(prepare(graphs.graph(job), job, cluster), times, IDEAL)
