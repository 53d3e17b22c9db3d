"""What a recipe of the product says of a job by the shipped operator times."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients, DistributedModel
from epochcast.analyzer.backends.distributed.iteration import prepare
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
