"""The paper's predictor, literally: Eq. 1 to 4 over the operators of a GPU's subgraph, each in its own precision.

``T = T_comp + V_dp / B + V_tp / B + T_comp (P - 1)``. The equations know no micro-batches, so that a pipeline is as slow as one
GPU with all layers, and tensor parallelism reduces the gradients of sliced weights where training reduces activations.
"""

from __future__ import annotations

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, rank_compute
from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, ModelBlock
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.prediction import Iteration


def by_equations(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> Iteration:
    """Eq. 1: compute of the slowest subgraph over its whole batch, and Eq. 2 to 4 on top of it.

    ``B_link`` is the link's line rate per GPU: that within a node where the job fits into one, else that between nodes, shared
    by the node's GPUs. A degree of 1 communicates nothing.
    """
    job, cluster = prepared.job, prepared.cluster
    compute = rank_compute(prepared, times, coefficients)
    total = sum(compute.values())
    one_node = job.gpus <= cluster.gpus_per_node
    bandwidth = cluster.intra.bandwidth if one_node else cluster.inter_bandwidth(cluster.gpus_per_node)
    data = prepared.most(_gradients) / bandwidth if job.data > 1 else 0.0
    tensor = prepared.most(lambda block: _gradients(block, sliced_only=True)) / bandwidth if job.tensor > 1 else 0.0
    bubble = total * (job.pipeline - 1)
    return Iteration(
        seconds=total + data + tensor + bubble,
        compute=compute,
        bubble=bubble,
        tensor_parallel=tensor,
        data_parallel=data,
        memory=prepared.memory,
    )


def _gradients(block: ModelBlock, sliced_only: bool = False) -> float:
    """Bytes of gradients, each weight in the precision that its operator computes in (section III)."""
    weights = [weight for weight in block.weights if weight.sliced or not sliced_only]
    return sum(weight.tensor.elements * DTYPE_BYTES[weight.computed or weight.gradient] for weight in weights)
