"""The paper's predictor, literally: Eq. 1 to 4 over the operators of a GPU's subgraph, each in its own precision.

``T = T_comp + V_dp / B + V_tp / B + T_comp (P - 1)``. The equations know no micro-batches, so that a pipeline is as slow as one
GPU with all layers, and tensor parallelism reduces the gradients of sliced weights where training reduces activations.
"""

from __future__ import annotations

from epochcast.analyzer.backends.distributed.answer import Iteration, Parts
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, TimedJob
from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, ModelBlock
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes


def by_equations(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> Iteration:
    """Eq. 1: compute of the slowest subgraph over its whole batch, and Eq. 2 to 4 on top of it.

    ``B_link`` is the link's line rate per GPU: that within a node where the job fits into one, else that between nodes, shared
    by the node's GPUs. A degree of 1 communicates nothing.
    """
    job, cluster = prepared.job, prepared.cluster
    timed = TimedJob(prepared, times, coefficients)
    compute = max(map(timed.compute, timed.ranks), key=lambda each: sum(each.values()))
    one_node = job.gpus <= cluster.gpus_per_node
    bandwidth = cluster.intra.bandwidth if one_node else cluster.inter_bandwidth(cluster.gpus_per_node)
    parts = Parts(
        compute=compute,
        bubble=sum(compute.values()) * (job.pipeline - 1),
        tensor_parallel=prepared.most(lambda block: _gradients(block, sliced_only=True)) / bandwidth if job.tensor > 1 else 0.0,
        data_parallel=prepared.most(_gradients) / bandwidth if job.data > 1 else 0.0,
        pipeline_parallel=0.0,
        optimizer=0.0,
    )
    return Iteration(parts, prepared.memory)


def _gradients(block: ModelBlock, sliced_only: bool = False) -> float:
    """Bytes of gradients, each weight in the precision that its operator computes in (section III)."""
    weights = [weight for weight in block.weights if weight.sliced or not sliced_only]
    return sum(weight.tensor.elements * DTYPE_BYTES[weight.computed or weight.gradient] for weight in weights)
