"""Data sheets alone: every operator at the GPU's peak or its memory's, every link at its line rate, the same schedule.

The calibrated roofline with nothing lost, not :class:`..operator_time.roofline.Roofline`: it knows fused kernels, so that the
default and this baseline differ in what was fitted and in nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication import Cluster
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.prediction import Iteration

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.recipes import Graphs

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


def predict(
    graphs: Graphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """Learns nothing: coefficients and times are not looked at."""
    ideal = CalibratedTimes(cluster.gpu, precision_named(job.precision), IDEAL, job.fused_kernels)
    return iteration(prepare(graphs.graph(job), job, cluster), ideal, IDEAL)
