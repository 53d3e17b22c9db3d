"""The calibrated model: real graph and precision, measured or calibrated operators, micro-batches, activations, overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..coefficients import Coefficients
from ..communication import Cluster
from ..iteration import iteration, prepare
from ..job import Job
from ..operator_time import OperatorTimes
from ..operator_time.calibrated import CalibratedTimes
from ..precision import precision_named
from ..prediction import Iteration

if TYPE_CHECKING:
    from . import Graphs


_CONVOLUTIONS = (
    "convolutions are as efficient as the matrix products of language models, of which the times were calibrated; in FP32 they "
    "were measured to be about twice as fast (learned operator times were closer)"
)


def predict(
    graphs: Graphs, job: Job, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """See :mod:`..iteration`; operator times are the calibrated roofline's unless given."""
    source = times or CalibratedTimes(cluster.gpu, precision_named(job.precision), coefficients, job.fused_kernels)
    answer = iteration(prepare(graphs.graph(job), job, cluster), source, coefficients)
    if isinstance(source, CalibratedTimes) and "convolution" in answer.compute:
        answer = replace(answer, notes=(*answer.notes, _CONVOLUTIONS))
    return answer
