"""The model that the paper calls NeuSight: FP32 operators, and communication of one parallelism only.

Section II-B: "it assumes a fixed precision and, moreover, supports only a single parallelism strategy". In a mixed job the
one of the highest degree is modelled (data before tensor before pipeline where they tie); the others divide the work and cost
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from lab.rivals.distributed import vtrain_style

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs


def predict(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """The FP32 answer less the communication and waiting of all parallelisms but one."""
    prediction = vtrain_style.predict(graphs, job, cluster, coefficients)
    degrees = {"data_parallel": job.data, "tensor_parallel": job.tensor, "pipeline_parallel": job.pipeline}
    kept = max(degrees, key=lambda name: degrees[name])
    gone = {name: 0.0 for name in degrees if name != kept} | ({} if kept == "pipeline_parallel" else {"bubble": 0.0})
    return replace(prediction, parts=prediction.parts.model_copy(update=gone))
