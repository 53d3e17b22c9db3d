"""The calibrated model: real graph and precision, measured or calibrated operators, micro-batches, activations, overlap."""

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


def predict(
    graphs: Graphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """See :mod:`..iteration`; operator times are the calibrated roofline's unless given."""
    source = times or CalibratedTimes(cluster.gpu, precision_named(job.precision), coefficients, job.fused_kernels)
    return iteration(prepare(graphs.graph(job), job, cluster), source, coefficients)
