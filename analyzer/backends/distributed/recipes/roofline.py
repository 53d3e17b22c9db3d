"""Data sheets alone: every operator at the GPU's peak or its memory's, every link at its line rate, the same schedule.

The calibrated roofline with nothing lost, not :class:`..operator_time.roofline.Roofline`: it knows fused kernels, so that the
default and this baseline differ in what was fitted and in nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coefficients import Coefficients
from ..communication import Cluster
from ..iteration import iteration, prepare
from ..job import TrainingConfiguration
from ..operator_time import OperatorTimes
from ..operator_time.calibrated import CalibratedTimes
from ..precision import precision_named
from ..prediction import Iteration

if TYPE_CHECKING:
    from . import Graphs

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
