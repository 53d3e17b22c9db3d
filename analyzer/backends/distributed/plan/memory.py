"""Memory of a GPU: weights, gradients, optimizer states and activations, and whether they fit; what the optimizer moves.

States: Rajbhandari et al. 2020 (ZeRO), sections 3.1 and 5. Adam (AdamW too) has two moments, SGD its momentum. Weights of 16
bits have an FP32 master copy next to them, as Megatron-LM and DeepSpeed keep it, and FP32 moments. From ZeRO stage 1 on a data
rank has its share of all of it. Activations: what the traced graph saves for the backward pass, times the micro-batches in
flight; what recomputation gives up: Korthikanti et al. 2022, sections 4 and 5. Under sequence parallelism torch keeps gathered
inputs whole, and so do we; Megatron-LM keeps a rank's part and gathers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from epochcast.analyzer.backends.distributed.answer import Memory
from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, ModelBlock, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, precision_named
from epochcast.analyzer.backends.distributed.plan.schedule import (
    Stage,
    gradient_bytes,
    in_flight,
    passes_by_chunk,
    sum_over,
    weight_bytes,
)


def kept_bytes(weights: Iterable[Weight], job: TrainingConfiguration) -> float:
    """Bytes of moments and master copies.

    Per parameter with Adam, weight and gradient included: 16 bytes in FP32, under autocast, and in 16 bit with master weights
    (K = 12 of Rajbhandari et al. 2020, section 3.1; Megatron-LM, which adds gradients up in FP32, has 18), 8 in 16 bit without.
    """
    numbers = ((weight.tensor.elements, *_state(weight, job)) for weight in weights)
    return sum(elements * state * (_moments(job) + master) for elements, state, master in numbers) / _sharers(job)


def moved_bytes(weights: Iterable[Weight], job: TrainingConfiguration) -> float:
    """Bytes read and written in one update: every state both ways, the gradient read, a weight of 16 bits written from its
    master; loss scaling reads and writes the gradients once more.
    """
    unscaled = 2 if precision_named(job.precision).loss_scaling else 0
    total = 0.0
    for weight in weights:
        state, master = _state(weight, job)
        size = DTYPE_BYTES[weight.tensor.dtype]
        total += weight.tensor.elements * (2 * state * (1 + _moments(job)) + size * (1 + unscaled + master))
    return total / _sharers(job)


def _state(weight: Weight, job: TrainingConfiguration) -> tuple[int, bool]:
    """Bytes of one number of a weight's states, and whether a master copy is among them."""
    size = DTYPE_BYTES[weight.tensor.dtype]
    master = job.keeps_master and size < 4
    return 4 if master else size, master


def _moments(job: TrainingConfiguration) -> int:
    return 2 if job.optimizer == "adam" else 1


def _sharers(job: TrainingConfiguration) -> int:
    return job.shards if job.zero else 1


_GIB = 2.0**30

CONTEXT_BYTES = 0.5 * _GIB
"""CUDA context and kernels of a process: 0.3 GB and more since CUDA 11.7 loads them when used (pytorch issue 107667)."""
COMMUNICATOR_BYTES = 0.6 * _GIB
"""Buffers of one NCCL communicator: 544 MB among 2 GPUs, 688 MB among more (NCCL issue 964, A100 with NVLink)."""
FRAGMENTED = 0.04
"""Share of a GPU's memory that error correction and the allocator's gaps keep from use; assumed, not measured."""


def memory_of(stages: Sequence[Stage], job: TrainingConfiguration, capacity_bytes: float) -> Memory:
    """Bytes on the fullest GPU.

    ``capacity`` is what is left to the job: less the CUDA context, a communicator for each kind of parallelism in use and
    :data:`FRAGMENTED`.
    """
    return _fullest(stages, job, capacity_bytes)[1]


def verdict(stages: Sequence[Stage], job: TrainingConfiguration, capacity_bytes: float) -> str:
    """One sentence: that it fits, or which rank needs how much of what, and what would help."""
    rank, memory = _fullest(stages, job, capacity_bytes)
    needed, capacity = f"{memory.total / _GIB:.1f}", f"{memory.capacity / _GIB:.1f}"
    if memory.fits:
        which = "the fullest GPU" if job.pipeline > 1 else "each GPU"
        return f"fits: {which} needs {needed} of {capacity} GiB"
    titles = {name: Memory.model_fields[name].title for name in ("weights", "gradients", "optimizer", "activations")}
    parts = ", ".join(f"{title} {getattr(memory, name) / _GIB:.1f}" for name, title in titles.items())
    where = f"pipeline rank {rank} needs" if job.pipeline > 1 else "each GPU needs"
    return (
        f"out of memory: {where} {needed} GiB ({parts}) and has {capacity} of {capacity_bytes / _GIB:.1f} GiB; "
        f"{_remedy(stages, job, capacity_bytes)}"
    )


def _fullest(stages: Sequence[Stage], job: TrainingConfiguration, capacity_bytes: float) -> tuple[int, Memory]:
    groups = sum(degree > 1 for degree in (job.shards, job.tensor, job.pipeline, job.context if job.data > 1 else 1))
    capacity = max(0.0, capacity_bytes * (1 - FRAGMENTED) - CONTEXT_BYTES - groups * COMMUNICATOR_BYTES)
    ranks = [(rank, _rank_memory(stages, job, rank, capacity)) for rank in range(job.pipeline)]
    return max(ranks, key=lambda entry: entry[1].total)


def _rank_memory(stages: Sequence[Stage], job: TrainingConfiguration, rank: int, capacity: float) -> Memory:
    """Memory of one rank.

    ZeRO 2 shards gradients, 3 (FSDP) the weights too; a rank then has the whole of a block for as long as it runs, and of the
    block that is gathered ahead of it (Zhao et al. 2023, section 3.3).
    """
    own = [stage for stage in stages if stage.rank == rank]
    weights, gradients = sum(stage.weight_bytes for stage in own), sum(stage.gradient_bytes for stage in own)
    blocks = [block for stage in own for block in stage.blocks]
    if job.zero >= 2 and job.shards > 1:
        gradients = gradients / job.shards + max(map(gradient_bytes, blocks))
    if job.zero == 3 and job.shards > 1:
        weights = weights / job.shards + sum(sorted(map(weight_bytes, blocks))[-2:])
    return Memory.of(
        weights=weights,
        gradients=gradients,
        optimizer=sum(sum_over(stage.blocks, lambda block: kept_bytes(block.weights, job)) for stage in own),
        activations=_activation_bytes(own, job, rank),
        capacity=capacity,
    )


def _activation_bytes(stages: Sequence[Stage], job: TrainingConfiguration, rank: int) -> float:
    """Saved tensors of the micro-batches in flight, and the most that the backward pass has next to them."""
    most = in_flight(rank, job.pipeline, job.micro_batches, job.schedule, job.virtual_stages)
    # A rank begins with as many forward passes as are ever in flight.
    held = passes_by_chunk(most, job.pipeline, job.virtual_stages)
    kept = sum(count * _kept_bytes(stage, job) for count, stage in zip(held, stages, strict=True))
    different = {id(block): block for stage in stages for block in stage.blocks}.values()
    return kept + max((_working_bytes(block, job) for block in different), default=0.0)


def _kept_bytes(stage: Stage, job: TrainingConfiguration) -> float:
    """Bytes of one micro-batch from its forward to its backward pass."""
    if job.recomputation == "full":
        received = [stage.received, *(block.output for block in stage.blocks[:-1])]
        return sum(
            block.saved_bytes if _never_recomputed(block) else float(given.bytes if given else 0)
            for block, given in zip(stage.blocks, received, strict=True)
        )
    saved = sum_over(stage.blocks, lambda block: block.saved_bytes)
    if job.recomputation == "selective":
        saved -= sum_over(stage.blocks, lambda block: 0.0 if _never_recomputed(block) else block.core_saved_bytes)
    return saved


def _working_bytes(block: ModelBlock, job: TrainingConfiguration) -> float:
    """What a block's backward pass holds for a while: what it recomputed, a gradient that it reads and what it makes."""
    again = {"none": 0.0, "selective": block.core_saved_bytes, "full": block.saved_bytes}[job.recomputation]
    operators = [(operator.inputs[:1], operator.outputs) for operator in block.backward]
    moving = max((sum(tensor.bytes for tensor in (*read, *made)) for read, made in operators), default=0)
    return moving + block.working_bytes + (0.0 if _never_recomputed(block) else again)


def unfused_loss_bytes(stages: Sequence[Stage]) -> float:
    """Bytes that torch's own cross-entropy takes beside a fused one: logits, their softmax and its gradient in FP32."""
    fused = "epochcast.cross_entropy"
    losses = [operator for stage in stages for block in stage.blocks for operator in block.forward if operator.name == fused]
    return max((3 * 4 * loss.inputs[0].elements - 2 * loss.inputs[0].bytes for loss in losses), default=0.0)


def _never_recomputed(block: ModelBlock) -> bool:
    """Whether recomputation leaves the block alone: Megatron-LM recomputes layers, not embedding and loss."""
    return block.name in ("before", "after")


def _remedy(stages: Sequence[Stage], job: TrainingConfiguration, capacity_bytes: float) -> str:
    """What would help: computed where the graph stays the same, named where it would not."""
    smaller = "a smaller micro-batch or " if job.micro_batch > 1 else ""
    shard = "--zero 3, " if job.zero < 3 and job.shards > 1 else ""
    more = f"{shard}{smaller}more {'data, ' if job.zero == 3 else ''}tensor, context or pipeline ranks"
    if job.recomputation == "full":
        return f"take {more}"
    memory = memory_of(stages, replace(job, recomputation="full"), capacity_bytes)
    computed = f"{memory.total / _GIB:.1f} with full recomputation"
    return f"it would need {computed}; else take {more}" if memory.fits else f"take {more} (it would still need {computed})"
