"""The pieces put together: one iteration from the stages of a job, the times of their operators and its links.

Narayanan et al. 2021 (Megatron-LM), sections 2 and 3, with what micro-batches, activations and recomputation add to the
paper's Eq. 1: the bubble is (p - 1) slots of one micro-batch, and tensor parallelism reduces activations in every layer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.answer import Iteration, Memory, Parts
from epochcast.analyzer.backends.distributed.communication.cluster import (
    Cluster,
    all_gather_seconds,
    all_reduce_seconds,
    point_to_point_seconds,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.memory import memory_of, moved_bytes, unfused_loss_bytes
from epochcast.analyzer.backends.distributed.plan.schedule import (
    Stage,
    StageTimes,
    gradient_bytes,
    partition,
    pipeline_seconds,
    sum_over,
    weight_bytes,
)

_EXCHANGES = {
    "epochcast.all_reduce": all_reduce_seconds,
    "epochcast.all_gather": all_gather_seconds,
    "epochcast.reduce_scatter": reduce_scatter_seconds,
    "epochcast.context_gather": all_gather_seconds,
    "epochcast.context_scatter": reduce_scatter_seconds,
}

BUCKET_BYTES = 25 * 2**20
"""``bucket_cap_mb`` of torch.nn.parallel.DistributedDataParallel."""


@dataclass(frozen=True)
class PreparedJob:
    """All of a job that does not depend on how fast its operators are: its stages, and what its links ask for by themselves."""

    job: TrainingConfiguration
    cluster: Cluster
    stages: tuple[Stage, ...]
    tied_bytes: float

    @cached_property
    def exchanges(self) -> Mapping[tuple[int, str], tuple[float, float]]:
        """Seconds that tensor and that context ranks exchange in each part of each block, by (id of the block, part)."""
        return {
            (id(block), part): (
                sum(self._exchange(operator) for operator in getattr(block, part) if "context" not in operator.name),
                sum(self._exchange(operator) for operator in getattr(block, part) if "context" in operator.name),
            )
            for block in {id(block): block for stage in self.stages for block in stage.blocks}.values()
            for part in ("forward", "backward", "again", "core")
        }

    def _exchange(self, operator: Operator) -> float:
        if operator.kind != "communication":
            return 0.0
        full_bytes = max(tensor.bytes for tensor in (*operator.inputs, *operator.outputs))
        group = (self.job.context, self.job.tensor) if "context" in operator.name else (self.job.tensor, 1)
        return _EXCHANGES[operator.name](self.cluster, full_bytes, *group)

    @cached_property
    def tied(self) -> float:
        """Seconds to sum the gradient of embeddings that the first and the last stage share (Megatron-LM)."""
        return all_reduce_seconds(self.cluster, self.tied_bytes, 2, self.ends_apart) if self.job.pipeline > 1 else 0.0

    @property
    def ends_apart(self) -> int:
        """Global ranks from the first to the last stage of a pipeline."""
        return self.job.shards * self.job.tensor * (self.job.pipeline - 1)

    @cached_property
    def sends(self) -> tuple[float, ...]:
        """Seconds to hand one micro-batch's activations to the next chunk, for each chunk; 0 after the last."""
        job = self.job
        # Each tensor rank hands on its share, which the next stage gathers (Narayanan et al. 2021, section 4.1); under sequence
        # parallelism it has no more than that (Korthikanti et al. 2022, section 4.2.2).
        sharers = 1 if job.sequence_parallel else job.tensor
        outputs = [stage.blocks[-1].output for stage in self.stages[:-1]]
        return (
            *(
                point_to_point_seconds(self.cluster, output.bytes / sharers, job.shards * job.tensor, job.pipeline)
                if output
                else 0.0
                for output in outputs
            ),
            0.0,
        )

    @cached_property
    def update_bytes(self) -> float:
        """Bytes that the optimizer moves on the rank that moves most."""
        return self.most(lambda block: moved_bytes(block.weights, self.job))

    @cached_property
    def accumulation_bytes(self) -> float:
        """Bytes to add one micro-batch's gradients to those before: two reads and a write."""
        return 3 * self.most(gradient_bytes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, and settings without effect, a sentence each."""
        notes = list(self.cluster.assumptions)
        if self.job.recomputation == "selective" and not any(block.core for stage in self.stages for block in stage.blocks):
            notes.append("selective recomputation changes nothing: the model has no module `core` with attention")
        if more := unfused_loss_bytes(self.stages):
            notes.append(f"the loss is one fused kernel (Megatron-LM, Liger); torch's own needs {more / 2**30:.1f} GiB more")
        return tuple(notes)

    @cached_property
    def memory(self) -> Memory:
        """Bytes on the fullest GPU."""
        return memory_of(self.stages, self.job, self.cluster.gpu.memory)

    def most(self, of: Callable[[ModelBlock], float]) -> float:
        """Of a figure of blocks, the sum on the rank that has most."""
        ranks = [0.0] * self.job.pipeline
        for stage in self.stages:
            ranks[stage.rank] += sum_over(stage.blocks, of)
        return max(ranks)


def prepare(graph: Graph, job: TrainingConfiguration, cluster: Cluster) -> PreparedJob:
    """Cut the graph for the job; raises InputError for what does not divide."""
    tied = sum(weight.tensor.bytes for weight in graph.after.weights if weight.name in graph.tied)
    return PreparedJob(job, cluster, partition(graph, job), tied)


class _Chunk(NamedTuple):
    """One micro-batch in one chunk.

    Seconds by kind (``recomputation`` among them), of exchanges between tensor and context ranks, of FSDP's exchanges that
    computing does not hide, and of the two passes in all.
    """

    compute: Mapping[str, float]
    exchange: float
    sharding: float
    forward: float
    backward: float


@dataclass(frozen=True)
class TimedJob:
    """A prepared job with the times of its operators, and what a training reaches of them and of its links."""

    prepared: PreparedJob
    times: OperatorTimes
    coefficients: Coefficients
    _passes: dict[tuple[int, str], tuple[Mapping[str, float], float]] = field(default_factory=dict, init=False, repr=False)

    @property
    def job(self) -> TrainingConfiguration:
        """What is trained."""
        return self.prepared.job

    @cached_property
    def ranks(self) -> list[list[_Chunk]]:
        """The chunks of each pipeline rank."""
        chunks = [self._chunk(stage.blocks) for stage in self.prepared.stages]
        return [chunks[rank :: self.job.pipeline] for rank in range(self.job.pipeline)]

    def slots(self, sending: bool) -> list[StageTimes]:
        """One micro-batch in each chunk, in the order of the model."""
        speed = self.reached(self.job.pipeline, self.job.shards * self.job.tensor)
        chunks = (self.ranks[stage.rank][stage.chunk // self.job.pipeline] for stage in self.prepared.stages)
        return [
            StageTimes(chunk.forward, chunk.backward, seconds / speed if sending else 0.0)
            for chunk, seconds in zip(chunks, self.prepared.sends, strict=True)
        ]

    def reached(self, ranks: int, stride: int) -> float:
        """Share of the modelled speed that a group reaches."""
        within = self.prepared.cluster.placement(ranks, stride).nodes == 1
        return self.coefficients.node_link if within else self.coefficients.network

    def _chunk(self, blocks: Sequence[ModelBlock]) -> _Chunk:
        """Add up blocks."""
        again = {"none": None, "selective": "core", "full": "again"}[self.job.recomputation]
        compute: dict[str, float] = defaultdict(float)
        exchange = 0.0
        passes: list[tuple[float, float]] = []
        for block in blocks:
            ahead, back = self._run(block, "forward"), self._run(block, "backward")
            for kind, seconds in (*ahead[0].items(), *back[0].items()):
                compute[kind] += seconds
            exchange += ahead[1] + back[1]
            backward = sum(back[0].values()) + back[1]
            if again and block.name not in ("before", "after"):  # Megatron recomputes layers, not embedding and loss
                repeated = self._run(block, again)
                compute["recomputation"] += sum(repeated[0].values())
                exchange += repeated[1]
                backward += sum(repeated[0].values()) + repeated[1]
            passes.append((sum(ahead[0].values()) + ahead[1], backward))
        forward, backward = (sum(each) for each in zip(*passes, strict=True))
        longer = exposed_sharding(passes, [self._sharding(block) for block in blocks])
        return _Chunk(compute, exchange, sum(longer), forward + longer[0], backward + longer[1])

    def _run(self, block: ModelBlock, part: str) -> tuple[Mapping[str, float], float]:
        """Seconds by kind of operator in a part of a block, and of its exchanges between tensor and context ranks."""
        key = (id(block), part)
        if key not in self._passes:
            compute: dict[str, float] = defaultdict(float)
            if operators := getattr(block, part):
                for operator, seconds in zip(operators, self._in_training(operators), strict=True):
                    compute[operator.kind] += float(seconds)
            compute.pop("communication", None)  # counted by the links, below
            between_tensors, between_contexts = self.prepared.exchanges[key]
            exchange = between_tensors / self.reached(self.job.tensor, 1)
            if part == "backward" and self.job.tensor_overlap:
                # Of the two products of a layer's backward pass, the weight gradient's is free of the exchange.
                exchange = max(0.0, exchange - compute.get("matmul", 0.0) / 2)
            exchange += between_contexts / self.reached(self.job.context, self.job.tensor)
            self._passes[key] = compute, exchange
        return self._passes[key]

    def _in_training(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator as one of many, shape (n,)."""
        c, alone = self.coefficients, self.times.seconds(operators)
        throttled = c.throttled if self.prepared.cluster.gpu.compute_capability >= 9 else 1.0
        factors = [
            c.passes
            if not operator.flops
            else (c.attention if _is_attention(operator) else c.products) * (throttled if "16" in operator.dtype else 1.0)
            for operator in operators
        ]
        seconds: NDArray[np.float64] = alone * factors + c.gap * (alone > 0)
        return seconds

    def _sharding(self, block: ModelBlock) -> tuple[float, float]:
        """Seconds to gather a block's weights (ZeRO 3) and to reduce and scatter its gradients (from ZeRO 2 on)."""
        zero = self.job.zero
        return (
            self._over_shards(all_gather_seconds, weight_bytes(block)) if zero == 3 else 0.0,
            self._over_shards(reduce_scatter_seconds, gradient_bytes(block)) if zero >= 2 else 0.0,
        )

    def _over_shards(self, collective: Callable[..., float], size: float) -> float:
        group = (self.job.shards, self.job.tensor)
        return collective(self.prepared.cluster, size, *group) / self.reached(*group)

    def compute(self, chunks: Sequence[_Chunk]) -> dict[str, float]:
        """Seconds by kind of operator of all micro-batches in some chunks."""
        compute: dict[str, float] = defaultdict(float)
        for chunk in chunks:
            for kind, seconds in chunk.compute.items():
                compute[kind] += seconds * self.job.micro_batches
        return dict(compute)

    @property
    def accumulation(self) -> float:
        """Seconds in which the rank with most parameters adds up the gradients of its micro-batches."""
        if self.job.fused_kernels:  # Megatron adds into the product's output
            return 0.0
        shards = self.job.shards if self.job.zero >= 2 else 1
        bandwidth = self.prepared.cluster.gpu.memory_bandwidth * self.coefficients.optimizer
        return (self.job.micro_batches - 1) * self.prepared.accumulation_bytes / shards / bandwidth

    def reduction(self, rank: int) -> float:
        """Seconds of a rank's gradient reduction that its last micro-batch's backward pass does not hide."""
        job = self.job
        if job.shards == 1 or job.zero == 3:  # FSDP's is in the passes
            return 0.0
        own = [stage for stage in self.prepared.stages if stage.rank == rank]
        # After its step each rank hands on its share of the updated parameters, which nothing hides (Rajbhandari et al. 2020).
        gathered = self._over_shards(all_gather_seconds, sum(stage.weight_bytes for stage in own)) if job.zero else 0.0
        if job.zero == 2:
            return gathered
        gradients = sum(stage.gradient_bytes for stage in own)
        backward = sum(chunk.backward for chunk in self.ranks[rank])
        collective = reduce_scatter_seconds if job.zero else all_reduce_seconds
        reduce = lambda size: self._over_shards(collective, size)  # noqa: E731
        return exposed_data_parallel(backward, gradients, reduce, job.overlap) + gathered

    @property
    def update(self) -> float:
        """Seconds of the optimizer's step, by its traffic."""
        return self.prepared.update_bytes / (self.prepared.cluster.gpu.memory_bandwidth * self.coefficients.optimizer)


def _is_attention(operator: Operator) -> bool:
    """Whether it is fused attention, or a batch of products of which eager attention has two."""
    return operator.kind == "attention" or (operator.kind == "matmul" and operator.gemm[0] > 1)


def exposed_sharding(passes: Sequence[tuple[float, float]], exchanges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds by which FSDP's exchanges lengthen the forward and the backward pass.

    The weights of the next block are gathered while one runs, and in the backward pass the gradients of the one before are
    scattered next to that (Zhao et al. 2023, section 3.3). The first gather and the last scatter have nothing to hide behind.

    Args:
        passes: seconds of the forward and the backward pass of each block.
        exchanges: seconds to gather each block's weights, and to scatter its gradients.
    """
    gathers, scatters = zip(*exchanges, strict=True)
    forward = gathers[0] + sum(max(0.0, gather - run[0]) for gather, run in zip(gathers[1:], passes, strict=False))
    beside = zip((0.0, *gathers[:-1]), (*scatters[1:], 0.0), passes, strict=True)
    backward = scatters[0] + sum(max(0.0, gather + scatter - run[1]) for gather, scatter, run in beside)
    return forward, backward


def exposed_data_parallel(
    backward_seconds: float, gradient_bytes: float, reduce: Callable[[float], float], overlap: bool
) -> float:
    """Seconds of gradient reduction after the backward pass.

    torch's DistributedDataParallel (Li et al. 2020, section 3.2) reduces buckets of gradients as soon as all of one are there,
    one after the other, while the backward pass goes on. With several micro-batches only the last one's backward pass has
    something to reduce (``no_sync``). What computation loses to the communication next to it is not modelled.

    Args:
        backward_seconds: of the last micro-batch on the rank; gradients become ready evenly over it.
        gradient_bytes: all gradients of the rank, in the dtype that is reduced.
        reduce: seconds of the collective for so many bytes, an all-reduce, or a reduce-scatter with ZeRO.
        overlap: False: one reduction of everything after the backward pass, as Megatron-LM does it by default.
    """
    if not overlap:
        return reduce(gradient_bytes)
    full_buckets, rest = divmod(gradient_bytes, BUCKET_BYTES)
    rest_seconds = reduce(rest) if rest else 0.0
    if not full_buckets:
        return rest_seconds
    bucket_seconds = reduce(BUCKET_BYTES)
    first_ready = backward_seconds * BUCKET_BYTES / gradient_bytes
    last_ready = first_ready * full_buckets
    # Buckets are equal and become ready at an even pace, so the last is delayed by the first of them or by none.
    done = max(first_ready + full_buckets * bucket_seconds, last_ready + bucket_seconds)
    return max(done, backward_seconds if rest else 0.0) + rest_seconds - backward_seconds


def iteration(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> Iteration:
    """Seconds of one iteration, by parts, with the memory of the fullest GPU.

    Raises:
        InputError: the source of times has no answer for an operator.
    """
    job, timed = prepared.job, TimedJob(prepared, times, coefficients)
    without_sends, with_sends = (
        pipeline_seconds(timed.slots(sending), job.pipeline, job.micro_batches, job.schedule) for sending in (False, True)
    )
    busy = [sum(chunk.forward + chunk.backward for chunk in own) for own in timed.ranks]
    slowest = timed.ranks[busy.index(max(busy))]
    compute = timed.compute(slowest)
    if adding := timed.accumulation:
        compute["elementwise"] = compute.get("elementwise", 0.0) + adding
    exchange, sharding = (
        sum(getattr(chunk, name) for chunk in slowest) * job.micro_batches for name in ("exchange", "sharding")
    )
    reduction = max(timed.reduction(rank) for rank in range(job.pipeline)) + sharding
    if prepared.tied:
        reduction += prepared.tied / timed.reached(2, prepared.ends_apart)
    # Of one stage the difference is rounding.
    bubble = max(0.0, without_sends - max(busy) * job.micro_batches) if job.pipeline > 1 else 0.0
    sends, update = with_sends - without_sends, timed.update
    seconds = sum(compute.values()) + exchange + bubble + sends + reduction + update
    nodes = math.ceil(job.gpus / prepared.cluster.gpus_per_node)
    parts = Parts(
        compute=compute,
        bubble=bubble,
        tensor_parallel=exchange,
        data_parallel=reduction + seconds * coefficients.doubling * math.log2(nodes),
        pipeline_parallel=sends,
        optimizer=update,
    )
    return Iteration(parts, prepared.memory, prepared.notes)
