"""Data sheets alone: every operator at the GPU's peak or its memory's, every link at its line rate, the same schedule.

The calibrated roofline with nothing lost, not :class:`..operator_time.roofline.Roofline`: it knows fused kernels, so that the
default and this baseline differ in what was fitted and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.prediction import Iteration

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.graphs import ModelGraphs

IDEAL = Coefficients(
    gemm=1.0,
    gemm_depth=1e-9,
    gemm_tail=1e-9,
    gemm_bandwidth=1.0,
    bandwidth=1.0,
    launch=0.0,
    node_link=1.0,
    network=1.0,
    optimizer=1.0,
)
"""Nothing is lost anywhere."""


def predict_calibrated(
    recipe: Callable[..., Iteration],
    graphs: ModelGraphs,
    job: TrainingConfiguration,
    cluster: Cluster,
    coefficients: Coefficients,
) -> Iteration:
    """What a recipe of the product says of a job by the operator times of the calibrated roofline."""
    times = CalibratedTimes(cluster.gpu, precision_named(job.precision), coefficients, job.fused_kernels)
    return recipe(prepare(graphs.graph(job), job, cluster), times, coefficients)


def predict(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """Learns nothing: coefficients are not looked at."""
    return predict_calibrated(iteration, graphs, job, cluster, IDEAL)
