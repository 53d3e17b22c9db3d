"""The paper's predictor, literally: Eq. 1 to 4 over the operators of a GPU's subgraph, each in its own precision.

``T = T_comp + V_dp / B + V_tp / B + T_comp (P - 1)``. The equations know no micro-batches, so that a pipeline is as slow as one
GPU with all layers, and tensor parallelism reduces the gradients of sliced weights where training reduces activations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication import Cluster
from epochcast.analyzer.backends.distributed.graph import DTYPE_BYTES
from epochcast.analyzer.backends.distributed.iteration import prepare, rank_compute
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes
from epochcast.analyzer.backends.distributed.partition import Stage
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.prediction import Iteration

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.recipes import Graphs


def predict(
    graphs: Graphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """Eq. 1: compute of the slowest subgraph over its whole batch, and Eq. 2 to 4 on top of it.

    ``B_link`` is the link's line rate per GPU: that within a node where the job fits into one, else that between nodes, shared
    by the node's GPUs. A degree of 1 communicates nothing.
    """
    prepared = prepare(graphs.graph(job), job, cluster)
    own = CalibratedTimes(cluster.gpu, precision_named(job.precision), coefficients, job.fused_kernels)
    compute = rank_compute(prepared, times or own, coefficients)
    total = sum(compute.values())
    one_node = job.gpus <= cluster.gpus_per_node
    bandwidth = cluster.intra.bandwidth if one_node else cluster.inter_bandwidth(cluster.gpus_per_node)
    gradients = _by_rank(prepared.stages, job.pipeline, sliced_only=False)
    sliced = _by_rank(prepared.stages, job.pipeline, sliced_only=True)
    data = max(gradients) / bandwidth if job.data > 1 else 0.0
    tensor = max(sliced) / bandwidth if job.tensor > 1 else 0.0
    bubble = total * (job.pipeline - 1)
    return Iteration(
        seconds=total + data + tensor + bubble,
        compute=compute,
        bubble=bubble,
        tensor_parallel=tensor,
        data_parallel=data,
        memory=prepared.memory,
    )


def _by_rank(stages: tuple[Stage, ...], ranks: int, sliced_only: bool) -> list[float]:
    """Gradient bytes of each pipeline rank, each weight in the precision that its operator computes in (section III)."""
    sizes = [0.0] * ranks
    for stage in stages:
        for block in stage.blocks:
            for weight in block.weights:
                if weight.sliced or not sliced_only:
                    sizes[stage.rank] += weight.tensor.elements * DTYPE_BYTES[weight.computed or weight.gradient]
    return sizes
