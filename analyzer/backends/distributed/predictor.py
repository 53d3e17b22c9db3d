"""All questions about one model: its graphs, a recipe with its coefficients, and where operator times come from.

The paper's recipe is literal: Eq. 1 to 4 over the operators of a GPU's subgraph, each in its own precision:
``T = T_comp + V_dp / B + V_tp / B + T_comp (P - 1)``. The equations know no micro-batches, so that a pipeline is as slow as one
GPU with all layers, and tensor parallelism reduces the gradients of sliced weights where training reduces activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration, Parts
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster, Link, cluster_for
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients, DistributedModel, Evidence, Kind, row_of
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, TimedJob, iteration, prepare
from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, Graph, ModelBlock
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes, RememberedTimes
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes
from epochcast.analyzer.backends.distributed.plan.job import (
    Precision,
    Recomputation,
    TrainingConfiguration,
    ZeroStage,
    precision_named,
    require,
)
from epochcast.regressor import Gpu

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs


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


RECIPES: Mapping[str, Callable[[PreparedJob, OperatorTimes, Coefficients], Iteration]] = {
    "default": iteration,
    "paper": by_equations,
}
"""Ways to predict one iteration: ours, and the paper's equations."""

TimesOf = Callable[[Gpu, Precision], OperatorTimes]
"""Operator times of a GPU at a precision."""


@dataclass
class IterationPredictor:
    """Answers for any job and GPU; what jobs share is computed once.

    Attributes:
        graphs: of the model.
        recipe: a name of :data:`RECIPES`.
        fitted: efficiencies, and operator times learned from measured operators.
        times_of: another source of operator times.
        gpus_per_node, intra, inter: of the cluster, as :func:`.cluster_for` takes them.
    """

    graphs: ModelGraphs
    recipe: str = "default"
    fitted: DistributedModel = field(default_factory=DistributedModel.load)
    times_of: TimesOf | None = None
    gpus_per_node: int | None = None
    intra: Link | None = None
    inter: Link | None = None
    _clusters: dict[tuple[str, int], Cluster] = field(default_factory=dict, init=False, repr=False)
    _times: dict[tuple[str, str, bool], OperatorTimes] = field(default_factory=dict, init=False, repr=False)

    def cluster(self, gpu: Gpu, gpus: int) -> Cluster:
        """The cluster of a job on ``gpus`` GPUs; raises InputError if they do not fill its nodes."""
        if (gpu.name, gpus) not in self._clusters:
            self._clusters[gpu.name, gpus] = cluster_for(gpu, gpus, self.gpus_per_node, self.intra, self.inter)
        return self._clusters[gpu.name, gpus]

    def iteration(self, gpu: Gpu, job: TrainingConfiguration) -> Iteration:
        """Predict one iteration.

        Raises:
            InputError: the GPU lacks the precision, the model cannot be traced, or something does not divide.
        """
        return RECIPES[self.recipe](self.prepared(gpu, job), self.times(gpu, job), self.fitted.coefficients)

    def prepared(self, gpu: Gpu, job: TrainingConfiguration) -> PreparedJob:
        """Stages and memory of a job, without any time; raises InputError as :meth:`iteration` does."""
        require(gpu, precision_named(job.precision))
        return prepare(self.graphs.graph(job), job, self.cluster(gpu, job.gpus))

    def sharded(
        self,
        gpu: Gpu,
        job: TrainingConfiguration,
        recomputations: Sequence[Recomputation] = (),
        stages: Sequence[ZeroStage] | None = None,
    ) -> TrainingConfiguration:
        """The job with the least recomputation that fits the GPU and, of the stages of ZeRO that then do, the fastest.

        Where nothing fits, it has the most of both. ``recomputations`` may be taken, in order (empty: that of the job), and
        ``stages`` of ZeRO (None: any).
        """
        stages = stages or ((0, 1, 2, 3) if job.shards > 1 else (0,))
        for recomputation in recomputations or (job.recomputation,):
            jobs = [replace(job, recomputation=recomputation, zero=zero) for zero in stages]
            if fitting := [each for each in jobs if self.prepared(gpu, each).memory.fits]:
                return min(fitting, key=lambda each: self.iteration(gpu, each).seconds) if len(fitting) > 1 else fitting[0]
        return jobs[-1]

    def times(self, gpu: Gpu, job: TrainingConfiguration) -> OperatorTimes:
        """Operator times as the recipe asks for them; they remember what they were asked."""
        precision = precision_named(job.precision)
        key = (gpu.name, precision.name, job.fused_kernels)
        if key not in self._times:
            source = (
                LearnedTimes(gpu, self.fitted.operators, precision, job.fused_kernels)
                if self.times_of is None
                else self.times_of(gpu, precision)
            )
            self._times[key] = RememberedTimes(source)
        return self._times[key]

    def evidence(self, gpu: Gpu, job: TrainingConfiguration, iteration: Iteration) -> Evidence | None:
        """How sure an answer of :meth:`iteration` is; None for all recipes but the default, whose errors are its own."""
        if self.recipe != "default":
            return None
        precision, graph, cluster = precision_named(job.precision), self.graphs.graph(job), self.cluster(gpu, job.gpus)
        operators = [operator for block in graph.parts for operator in block.operators]
        convolved = sum(operator.flops for operator in operators if operator.kind == "convolution")
        kind: Kind = "convolutions" if convolved > sum(operator.flops for operator in operators) / 2 else "products"
        # TF32's operands are FP32 numbers in memory; FP8's count as 16, which were measured.
        bits = 32 if precision.products in ("float32", "tf32") else 16
        covered: list[str] = []
        missing: list[str] = []
        if self.times_of is not None:
            row = row_of("operators", 0, "measured")
        else:
            known = self.fitted.operators.measured(gpu.name, precision.products) if bits == 32 else gpu.name in self.fitted.gpus
            row = row_of(kind, bits, "measured" if known else "new")
            if not known:
                covered.append(f"no {'operator' if bits == 32 else 'training'} in {precision.name} was measured on {gpu.name}")
        if precision.fp8:
            missing.append("no training in FP8 was measured, only products")
        if job.gpus > 1 and (kind, bits) != ("products", 16):
            missing.append(f"no iteration in {job.precision} on several GPUs was measured")
        if job.context > 1:
            missing.append("no training with context parallelism was measured")
        if kind == "convolutions":
            covered.append("convolutions were measured on one GPU; `epochcast predict-model convmeter` is more accurate")
        source = "measured operators of this GPU" if self.times_of is not None else "learned from measured operators"
        rests_on = [f"operator times: {source}", row.text]
        # What an unmeasured thing adds, as the operators of 32 bits show it of a GPU.
        unmeasured = row_of("products", 32, "new").variance - row_of("products", 32, "measured").variance
        variance = row.variance + len(missing) * unmeasured
        exchanges = row_of("exchanges", 0, "measured" if cluster.measured else "new")
        if job.gpus > 1:
            if cluster.measured:
                rests_on.append(exchanges.text)
            else:
                covered.append(f"all-reduces over {cluster.intra.name} were not measured; {exchanges.text}")
                variance += (iteration.parts.exchanges / iteration.seconds) ** 2 * exchanges.variance
        if self.fitted.parameters is not None:
            size, (low, high) = graph.parameters(job.tensor), self.fitted.parameters
            if not low <= size <= high:
                fitted_on = f"{low / 1e9:.3g} to {high / 1e9:.3g}"
                missing.append(f"the model has {size / 1e9:.3g} billion parameters; measured models had {fitted_on}")
        return Evidence(
            factor=math.exp(math.sqrt(variance)),
            exchange_factor=math.exp(math.sqrt(variance + exchanges.variance)),
            rests_on=tuple(rests_on),
            not_measured=(*covered, *missing),
        )


def model_flops(graph: Graph, job: TrainingConfiguration) -> float:
    """Floating-point operations of one iteration over all GPUs, without what is recomputed.

    Matrix products, attention and convolutions, forward and backward, as the graph has them: for a language model close to the
    6 operations per parameter and token of Kaplan et al. 2020, section 2.1, with attention's on top. What tensor ranks do in
    common counts for each.
    """
    counts = (operator.flops for block in graph.parts for operator in block.operators)
    return sum(counts) * job.tensor * job.context * job.micro_batches * job.data
