"""The pieces put together: one iteration from the stages of a job, the times of their operators and its links.

Narayanan et al. 2021 (Megatron-LM), sections 2 and 3, with what micro-batches, activations and recomputation add to the
paper's Eq. 1: the bubble is (p - 1) slots of one micro-batch, and tensor parallelism reduces activations in every layer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.communication.collectives import (
    all_gather_seconds,
    all_reduce_seconds,
    point_to_point_seconds,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.memory import memory_of, unfused_loss_bytes
from epochcast.analyzer.backends.distributed.plan.optimizer import moved_bytes, update_is_plain
from epochcast.analyzer.backends.distributed.plan.partition import Stage, gradient_bytes, partition, sum_over, weight_bytes
from epochcast.analyzer.backends.distributed.plan.schedule import StageTimes, pipeline_seconds
from epochcast.analyzer.backends.distributed.prediction import Iteration, Memory
from epochcast.regressor import Gpu

_EXCHANGES = {
    "epochcast.all_reduce": all_reduce_seconds,
    "epochcast.all_gather": all_gather_seconds,
    "epochcast.reduce_scatter": reduce_scatter_seconds,
    "epochcast.context_gather": all_gather_seconds,
    "epochcast.context_scatter": reduce_scatter_seconds,
}

BUCKET_BYTES = 25 * 2**20
"""``bucket_cap_mb`` of torch.nn.parallel.DistributedDataParallel."""


class _Pass(NamedTuple):
    """One pass of one block: seconds by kind of operator, and of its exchanges between tensor ranks."""

    compute: Mapping[str, float]
    exchange: float

    @property
    def seconds(self) -> float:
        return sum(self.compute.values()) + self.exchange


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
class PreparedJob:
    """All of a job that does not depend on how fast its operators are: its stages, and what its links ask for by themselves."""

    job: TrainingConfiguration
    cluster: Cluster
    stages: tuple[Stage, ...]
    tied_bytes: float

    @cached_property
    def exchanges(self) -> Mapping[tuple[int, str], tuple[float, float]]:
        """Seconds that tensor and that context ranks exchange in each part of each block, by (id of the block, part)."""
        blocks = {id(block): block for stage in self.stages for block in stage.blocks}
        return {
            (key, part): (
                sum(self._exchange(operator) for operator in getattr(block, part) if "context" not in operator.name),
                sum(self._exchange(operator) for operator in getattr(block, part) if "context" in operator.name),
            )
            for key, block in blocks.items()
            for part in ("forward", "backward", "again", "core")
        }

    def _exchange(self, operator: Operator) -> float:
        if operator.kind != "communication":
            return 0.0
        full_bytes = max(tensor.bytes for tensor in (*operator.inputs, *operator.outputs))
        group = (self.job.context, self.job.tensor) if "context" in operator.name else (self.job.tensor, 1)
        return _EXCHANGES[operator.name](self.cluster, full_bytes, *group)

    @property
    def nodes(self) -> int:
        """Nodes that the job runs on."""
        return math.ceil(self.job.gpus / self.cluster.gpus_per_node)

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
        answer = []
        for stage, following in zip(self.stages, [*self.stages[1:], None], strict=True):
            output = stage.blocks[-1].output
            if following is None or output is None or job.pipeline == 1:
                answer.append(0.0)
            else:
                # Each tensor rank hands on its share, which the next stage gathers (Narayanan et al. 2021, section 4.1); under
                # sequence parallelism it has no more than that (Korthikanti et al. 2022, section 4.2.2).
                share = output.bytes / (1 if job.sequence_parallel else job.tensor)
                answer.append(point_to_point_seconds(self.cluster, share, job.shards * job.tensor, job.pipeline))
        return tuple(answer)

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


def stage_times(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> list[StageTimes]:
    """What a timeline is drawn from: one micro-batch in each chunk; all backward passes share the adding up of gradients."""
    adding = _accumulation(prepared, coefficients) / prepared.job.micro_batches / prepared.job.virtual_stages
    slots = _slots(prepared, _chunks(prepared, times, coefficients), coefficients)
    return [StageTimes(slot.forward, slot.backward + adding, slot.send) for slot in slots]


def _accumulation(prepared: PreparedJob, c: Coefficients) -> float:
    """Seconds in which the rank with most parameters adds up the gradients of its micro-batches."""
    job = prepared.job
    if job.fused_kernels:  # Megatron adds into the product's output
        return 0.0
    shards = job.shards if job.zero >= 2 else 1
    bandwidth = prepared.cluster.gpu.memory_bandwidth * c.optimizer
    return (job.micro_batches - 1) * prepared.accumulation_bytes / shards / bandwidth


def _reached(cluster: Cluster, ranks: int, stride: int, c: Coefficients) -> float:
    """Share of the modelled speed that a group reaches."""
    return c.node_link if cluster.placement(ranks, stride).nodes == 1 else c.network


def _slots(prepared: PreparedJob, chunks: Sequence[_Chunk], c: Coefficients) -> list[StageTimes]:
    job = prepared.job
    speed = _reached(prepared.cluster, job.pipeline, job.shards * job.tensor, c)
    return [
        StageTimes(chunk.forward, chunk.backward, seconds / speed)
        for chunk, seconds in zip(chunks, prepared.sends, strict=True)
    ]


def _chunks(prepared: PreparedJob, times: OperatorTimes, c: Coefficients) -> list[_Chunk]:
    known: dict[tuple[int, str], _Pass] = {}
    job, cluster = prepared.job, prepared.cluster
    tensor_speed, context_speed = _reached(cluster, job.tensor, 1, c), _reached(cluster, job.context, job.tensor, c)

    def run(block: ModelBlock, part: str) -> _Pass:
        key = (id(block), part)
        if key not in known:
            operators: tuple[Operator, ...] = getattr(block, part)
            compute: dict[str, float] = defaultdict(float)
            if operators:
                for operator, seconds in zip(operators, _in_training(operators, times, prepared.cluster.gpu, c), strict=True):
                    compute[operator.kind] += float(seconds)
            compute.pop("communication", None)  # counted by the links, below
            exchange = prepared.exchanges[key][0] / tensor_speed
            if part == "backward" and job.tensor_overlap:
                # Of the two products of a layer's backward pass, the weight gradient's is free of the exchange.
                exchange = max(0.0, exchange - compute.get("matmul", 0.0) / 2)
            known[key] = _Pass(compute, exchange + prepared.exchanges[key][1] / context_speed)
        return known[key]

    again = {"none": None, "selective": "core", "full": "again"}[job.recomputation]
    return [_chunk(stage.blocks, again, run, _sharding(prepared, c)) for stage in prepared.stages]


def _in_training(operators: Sequence[Operator], times: OperatorTimes, gpu: Gpu, c: Coefficients) -> NDArray[np.float64]:
    """Seconds of each operator as one of many, shape (n,)."""
    alone = times.seconds(operators)
    throttled = c.throttled if gpu.compute_capability >= 9 else 1.0
    factors = [
        c.passes
        if not operator.flops
        else (c.attention if _is_attention(operator) else c.products) * (throttled if "16" in operator.dtype else 1.0)
        for operator in operators
    ]
    seconds: NDArray[np.float64] = alone * factors + c.gap * (alone > 0)
    return seconds


def _is_attention(operator: Operator) -> bool:
    """Whether it is fused attention, or a batch of products of which eager attention has two."""
    return operator.kind == "attention" or (operator.kind == "matmul" and operator.gemm[0] > 1)


def _sharding(prepared: PreparedJob, c: Coefficients) -> Callable[[ModelBlock], tuple[float, float]]:
    """Seconds to gather a block's weights (ZeRO 3) and to reduce and scatter its gradients (from ZeRO 2 on)."""
    job, cluster = prepared.job, prepared.cluster
    speed = _reached(cluster, job.shards, job.tensor, c)

    def seconds(block: ModelBlock) -> tuple[float, float]:
        gather = all_gather_seconds(cluster, weight_bytes(block), job.shards, job.tensor) if job.zero == 3 else 0.0
        scatter = reduce_scatter_seconds(cluster, gradient_bytes(block), job.shards, job.tensor) if job.zero >= 2 else 0.0
        return gather / speed, scatter / speed

    return seconds


def _chunk(
    blocks: Sequence[ModelBlock],
    again: str | None,
    run: Callable[[ModelBlock, str], _Pass],
    sharding: Callable[[ModelBlock], tuple[float, float]],
) -> _Chunk:
    """Add up blocks; ``again`` is the part of each layer that the backward pass runs once more."""
    compute: dict[str, float] = defaultdict(float)
    exchange = 0.0
    passes: list[tuple[float, float]] = []
    for block in blocks:
        ahead, back = run(block, "forward"), run(block, "backward")
        for kind, seconds in (*ahead.compute.items(), *back.compute.items()):
            compute[kind] += seconds
        exchange += ahead.exchange + back.exchange
        backward = back.seconds
        if again and block.name not in ("before", "after"):  # Megatron recomputes layers, not embedding and loss
            repeated = run(block, again)
            compute["recomputation"] += sum(repeated.compute.values())
            exchange += repeated.exchange
            backward += repeated.seconds
        passes.append((ahead.seconds, backward))
    forward, backward = (sum(each) for each in zip(*passes, strict=True))
    exposed_forward, exposed_backward = exposed_sharding(passes, [sharding(block) for block in blocks])
    return _Chunk(compute, exchange, exposed_forward + exposed_backward, forward + exposed_forward, backward + exposed_backward)


def exposed_sharding(passes: Sequence[tuple[float, float]], exchanges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds by which FSDP's exchanges lengthen the forward and the backward pass.

    The weights of the next block are gathered while one runs, and in the backward pass the gradients of the one before are
    scattered next to that (Zhao et al. 2023, section 3.3). The first gather and the last scatter have nothing to hide behind.

    Args:
        passes: seconds of the forward and the backward pass of each block.
        exchanges: seconds to gather each block's weights, and to scatter its gradients.
    """
    gathers, scatters = ([each[place] for each in exchanges] for place in (0, 1))
    forward = gathers[0] + sum(max(0.0, gather - run[0]) for gather, run in zip(gathers[1:], passes, strict=False))
    last = len(passes) - 1
    backward = scatters[0]
    for place in range(last, -1, -1):
        beside = (gathers[place - 1] if place else 0.0) + (scatters[place + 1] if place < last else 0.0)
        backward += max(0.0, beside - passes[place][1])
    return forward, backward


def rank_compute(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> dict[str, float]:
    """Seconds by kind of operator that the slowest rank computes in an iteration, all micro-batches: the paper's T_comp."""
    ranks = _on_ranks(prepared, _chunks(prepared, times, coefficients))
    computes = [_compute(own, prepared.job.micro_batches) for own in ranks]
    return max(computes, key=_total)


def _total(compute: Mapping[str, float]) -> float:
    return sum(compute.values())


def _reduction(prepared: PreparedJob, rank: int, backward: float, c: Coefficients) -> float:
    """Seconds of a rank's gradient reduction that its last micro-batch's backward pass does not hide."""
    job, cluster = prepared.job, prepared.cluster
    own = [stage for stage in prepared.stages if stage.rank == rank]
    speed = _reached(cluster, job.shards, job.tensor, c)

    def over_data_ranks(collective: Callable[..., float]) -> Callable[[float], float]:
        return lambda size: collective(cluster, size, job.shards, job.tensor) / speed

    if job.shards == 1 or job.zero == 3:  # FSDP's is in the passes
        return 0.0
    # After its step each rank hands on its share of the updated parameters, which nothing hides (Rajbhandari et al. 2020).
    gathered = over_data_ranks(all_gather_seconds)(sum(stage.weight_bytes for stage in own)) if job.zero else 0.0
    if job.zero == 2:
        return gathered
    gradients = sum(stage.gradient_bytes for stage in own)
    collective = reduce_scatter_seconds if job.zero else all_reduce_seconds
    return exposed_data_parallel(backward, gradients, over_data_ranks(collective), job.overlap) + gathered


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
    if gradient_bytes <= 0:
        return 0.0
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


def _on_ranks(prepared: PreparedJob, chunks: Sequence[_Chunk]) -> list[list[_Chunk]]:
    ranks: list[list[_Chunk]] = [[] for _ in range(prepared.job.pipeline)]
    for stage, chunk in zip(prepared.stages, chunks, strict=True):
        ranks[stage.rank].append(chunk)
    return ranks


def _compute(chunks: Sequence[_Chunk], micro_batches: int) -> dict[str, float]:
    compute: dict[str, float] = defaultdict(float)
    for chunk in chunks:
        for kind, seconds in chunk.compute.items():
            compute[kind] += seconds * micro_batches
    return compute


def _update(prepared: PreparedJob, times: OperatorTimes, c: Coefficients) -> float:
    """Seconds of the optimizer's step: measured where one rank has room for all weights as they are, else by what it moves."""
    job = prepared.job
    unsharded = job.gpus == job.shards and not job.zero and prepared.memory.fits
    weights = [weight for stage in prepared.stages for block in stage.blocks for weight in block.weights]
    measured = getattr(times, "optimizer_seconds", None)
    if measured is not None and unsharded and update_is_plain(weights, job):
        return float(measured(weights, job.optimizer))
    return prepared.update_bytes / (prepared.cluster.gpu.memory_bandwidth * c.optimizer)


def iteration(prepared: PreparedJob, times: OperatorTimes, coefficients: Coefficients) -> Iteration:
    """Seconds of one iteration, by parts, with the memory of the fullest GPU.

    Raises:
        InputError: the source of times has no answer for an operator.
    """
    job, c = prepared.job, coefficients
    chunks = _chunks(prepared, times, c)
    slots = _slots(prepared, chunks, c)
    with_sends = pipeline_seconds(slots, job.pipeline, job.micro_batches, job.schedule)
    unsent = [StageTimes(slot.forward, slot.backward, 0.0) for slot in slots]
    without_sends = pipeline_seconds(unsent, job.pipeline, job.micro_batches, job.schedule)
    ranks = _on_ranks(prepared, chunks)
    busy = [sum(chunk.forward + chunk.backward for chunk in own) for own in ranks]
    slowest = ranks[busy.index(max(busy))]
    compute = _compute(slowest, job.micro_batches)
    exchange = sum(chunk.exchange for chunk in slowest) * job.micro_batches
    sharding = sum(chunk.sharding for chunk in slowest) * job.micro_batches
    if adding := _accumulation(prepared, c):
        compute["elementwise"] += adding
    reduction = max(_reduction(prepared, rank, sum(chunk.backward for chunk in own), c) for rank, own in enumerate(ranks))
    reduction += sharding
    if prepared.tied:
        reduction += prepared.tied / _reached(prepared.cluster, 2, prepared.ends_apart, c)
    update = _update(prepared, times, c)
    # Of one stage the difference is rounding.
    bubble = max(0.0, without_sends - max(busy) * job.micro_batches) if job.pipeline > 1 else 0.0
    seconds = sum(compute.values()) + exchange + bubble + (with_sends - without_sends) + reduction + update
    waiting = seconds * c.doubling * math.log2(prepared.nodes)
    reduction += waiting
    return Iteration(
        seconds=seconds + waiting,
        compute=dict(compute),
        bubble=bubble,
        tensor_parallel=exchange,
        data_parallel=reduction,
        pipeline_parallel=with_sends - without_sends,
        optimizer=update,
        within_passes=sharding,
        memory=prepared.memory,
        notes=prepared.notes,
    )
