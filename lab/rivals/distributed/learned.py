"""What recipes say of a job by the shipped operator times: ours, and the two that the paper compares itself with.

Precision-blind ones see FP32 operators (section II-B and Fig. 2). vTrain itself (Bae et al. 2024) profiles any precision that
it runs in; the names follow the paper's reading of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients, DistributedModel
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes, OperatorModel
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, precision_named

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs


def predict_learned(
    recipe: Callable[..., Iteration],
    graphs: ModelGraphs,
    job: TrainingConfiguration,
    cluster: Cluster,
    coefficients: Coefficients,
) -> Iteration:
    """The recipe's answer with these coefficients."""
    times = LearnedTimes(cluster.gpu, _shipped(), precision_named(job.precision), job.fused_kernels)
    return recipe(prepare(graphs.graph(job), job, cluster), times, coefficients)


@cache
def _shipped() -> OperatorModel:
    return DistributedModel.load().operators


def vtrain_style(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """The default's answer for the same job in FP32: every parallelism and its communication."""
    return predict_learned(iteration, graphs, replace(job, precision="fp32"), cluster, coefficients)


def neusight_style(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """The FP32 answer less the communication and waiting of all parallelisms but one.

    Section II-B: "it assumes a fixed precision and, moreover, supports only a single parallelism strategy". In a mixed job the
    one of the highest degree is modelled (data before tensor before pipeline where they tie); the others divide the work and
    cost nothing.
    """
    prediction = vtrain_style(graphs, job, cluster, coefficients)
    degrees = {"data_parallel": job.data, "tensor_parallel": job.tensor, "pipeline_parallel": job.pipeline}
    kept = max(degrees, key=lambda name: degrees[name])
    gone = {name: 0.0 for name in degrees if name != kept} | ({} if kept == "pipeline_parallel" else {"bubble": 0.0})
    return replace(prediction, parts=prediction.parts.model_copy(update=gone))
