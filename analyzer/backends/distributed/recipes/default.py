"""The calibrated model: real graph and precision, measured or calibrated operators, micro-batches, activations, overlap."""

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


def predict(
    graphs: Graphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """See :mod:`..iteration`; operator times are the calibrated roofline's unless given."""
    source = times or CalibratedTimes(cluster.gpu, precision_named(job.precision), coefficients, job.fused_kernels)
    return iteration(prepare(graphs.graph(job), job, cluster), source, coefficients)
