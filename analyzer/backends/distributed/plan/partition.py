"""The graph cut into what each GPU runs (Algorithm 1 of the paper).

Algorithm 1 makes d x t x p subgraphs, one per GPU. Those of one pipeline stage are all equal: data ranks run the same on other
samples, and a tensor rank's slice has the same shapes as its neighbours'. So a stage is kept once. The weights are sliced
before the graph is traced (:mod:`.tensor_slicing`, lines 12-15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, Graph, ModelBlock, Tensor
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.errors import InputError


@dataclass(frozen=True)
class Stage:
    """One chunk of a pipeline: what each of its d x t GPUs runs for one micro-batch.

    Attributes:
        rank: pipeline rank that runs it.
        chunk: its place in the model, 0 to p x virtual stages - 1.
        blocks: in the order of running; the first chunk starts with the graph's ``before``, the last ends with ``after``.
        received: what the chunk before it hands over for each micro-batch; None for the first.
    """

    rank: int
    chunk: int
    blocks: tuple[ModelBlock, ...]
    received: Tensor | None = None

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights on one GPU."""
        return sum_over(self.blocks, weight_bytes)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the gradients on one GPU."""
        return sum_over(self.blocks, gradient_bytes)


def weight_bytes(block: ModelBlock) -> float:
    """Bytes of a block's weights."""
    return float(sum(weight.tensor.bytes for weight in block.weights))


def gradient_bytes(block: ModelBlock) -> float:
    """Bytes of a block's gradients, each in the dtype that it is reduced in."""
    return sum(weight.tensor.elements * DTYPE_BYTES[weight.gradient] for weight in block.weights)


def sum_over(blocks: Sequence[ModelBlock], of: Callable[[ModelBlock], float]) -> float:
    """The sum of ``of`` over blocks, computed once for each that occurs several times."""
    times = Counter(map(id, blocks))
    return float(sum(times[key] * of(block) for key, block in {id(block): block for block in blocks}.items()))


def assign_layers(
    layers: int, pipeline: int, virtual: int = 1, layers_per_chunk: Sequence[int] | None = None
) -> tuple[range, ...]:
    """Cut ``layers`` into ``pipeline`` x ``virtual`` chunks in the order of the model (assign_layers of Algorithm 1).

    Chunk i runs on rank i mod ``pipeline``. Balanced: every chunk has the whole part of layers / chunks, and what is left over
    goes one each to the first chunks, as the last one has the head and the loss besides. A single chunk may be without layers.

    Args:
        layers: repeated blocks of the model.
        pipeline: pipeline ranks.
        virtual: chunks per rank (Narayanan et al. 2021, section 2.2).
        layers_per_chunk: layers of each chunk; None: balanced.

    Raises:
        InputError: fewer layers than chunks, or ``layers_per_chunk`` has another length, an empty chunk or another sum.
    """
    chunks = pipeline * virtual
    if chunks > max(layers, 1):
        how = f" x {virtual} virtual stages" if virtual > 1 else ""
        raise InputError(f"{layers} layers cannot fill {pipeline} pipeline ranks{how}; use {max(layers, 1)} chunks or fewer")
    if layers_per_chunk is None:
        least, extra = divmod(layers, chunks)
        sizes = [least + (chunk < extra) for chunk in range(chunks)]
    else:
        sizes = list(layers_per_chunk)
        listed = ", ".join(map(str, sizes))
        if len(sizes) != chunks:
            raise InputError(f"layers per stage are given for {len(sizes)} stages ({listed}) of {chunks}; give one number each")
        if min(sizes) < min(layers, 1) or sum(sizes) != layers:
            raise InputError(f"layers per stage ({listed}) sum to {sum(sizes)}; give {layers} in all, and one or more to each")
    return tuple(range(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0)))


def partition(graph: Graph, job: TrainingConfiguration) -> tuple[Stage, ...]:
    """Cut the graph of one tensor rank into the p x virtual stages chunks of ``job``, in the order of the model.

    Tied weights count at both ends of a pipeline, and once where both ends lie in one chunk.

    Raises:
        InputError: the layers do not fill the stages, or the given numbers of layers do not suit.
    """
    chunks = assign_layers(len(graph.blocks), job.pipeline, job.virtual_stages, job.layers_per_stage)
    after = graph.after
    if len(chunks) == 1 and graph.tied:
        after = replace(after, weights=tuple(weight for weight in after.weights if weight.name not in graph.tied))
    stages: list[Stage] = []
    for chunk, layers in enumerate(chunks):
        blocks = graph.blocks[layers.start : layers.stop]
        if chunk == 0:
            blocks = (graph.before, *blocks)
        if chunk == len(chunks) - 1:
            blocks = (*blocks, after)
        received = stages[-1].blocks[-1].output if stages else None
        stages.append(Stage(chunk % job.pipeline, chunk, blocks, received))
    return tuple(stages)
