"""The computation graph of a training step as plain data: operators with their shapes and dtypes, in blocks.

A :class:`Graph` is what one GPU runs for one micro-batch: what comes before the repeated blocks (embedding, stem), the blocks
in order, and what comes after them (last norm, head, loss), forward and backward. Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from epochcast.analyzer.backends.network.operators import Kind

Phase = Literal["forward", "backward"]
Extraction = Literal["recording", "fx"]
"""How a module's operators are found: what torch's dispatcher sees of its forward, or of its graph by torch.fx."""

DTYPE_BYTES = {
    "complex128": 16,
    "complex64": 8,
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "uint8": 1,
    "int8": 1,
    "bool": 1,
}


_GATHERS = {"aten.embedding.default", "aten.index_select.default", "aten.gather.default"}


@dataclass(frozen=True)
class Tensor:
    """Shape and dtype of one tensor; ``dtype`` is torch's name without ``torch.``."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of a contiguous copy."""
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Operator:
    """One operator as it runs on the device, below autograd and autocast.

    Attributes:
        name: aten name with its overload (``aten.addmm.default``), ``epochcast.attention`` and
            ``epochcast.attention_backward`` for scaled dot product attention, or for communication ``all_reduce``,
            ``all_gather`` and ``reduce_scatter`` (whose one input is what a rank holds of the whole), among context ranks
            ``context_gather`` and ``context_scatter``.
        kind: class of the operator, by which times are added up.
        phase: the pass that it runs in.
        inputs: tensors read; views count as the tensor that they show.
        outputs: tensors written.
        flops: floating-point operations; a multiplication and its addition are two. 0 where memory bounds it.
        fused_bytes: bytes moved when neighbouring one-pass operators run as one kernel (Megatron's fused kernels,
            torch.compile): those of the whole kernel at its first operator, 0 at the others.
        arguments: arguments to run it again, tensors as :class:`Tensor`, nested as aten takes them.
        module: path of the module that it belongs to, such as ``blocks.3.attention``; scores, softmax and dropout of eager
            attention belong to a module ``core``.
    """

    name: str
    kind: Kind
    phase: Phase
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: float = 0.0
    fused_bytes: float = 0.0
    arguments: tuple[Any, ...] = ()
    module: str = field(default="", compare=False)

    @property
    def bytes(self) -> float:
        """Least traffic of the operator alone: every input read once, every output written once."""
        return float(sum(read_bytes(self.name, self.inputs, self.outputs)) + sum(tensor.bytes for tensor in self.outputs))

    @property
    def dtype(self) -> str:
        """The dtype that it computes in: that of the first floating input, else of the first output."""
        floating = [tensor.dtype for tensor in (*self.inputs, *self.outputs) if "float" in tensor.dtype]
        return floating[0] if floating else "int64"

    @property
    def gemm(self) -> tuple[int, int, int, int]:
        """``(batch, m, n, k)`` of a matrix product; only for kind ``matmul``."""
        left, right = [tensor.shape for tensor in self.inputs if len(tensor.shape) >= 2][-2:]
        batch = math.prod(left[:-2])
        return batch, left[-2], right[-1], left[-1]


def read_bytes(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[int]:
    """Bytes that an operator reads of each input: all of it, but of a table only the rows that are looked up."""
    sizes = [tensor.bytes for tensor in inputs]
    if name in _GATHERS:
        sizes[0] = outputs[0].bytes
    return sizes


def in_core(module: str) -> bool:
    """Whether a module's path is that of attention's scores, softmax and dropout."""
    return "core" in module.split(".")


@dataclass(frozen=True)
class Weight:
    """One trainable tensor of a rank.

    Attributes:
        name: path of the parameter.
        tensor: its shape and dtype.
        gradient: dtype of the gradient that is reduced and stepped with (torch: that of the parameter).
        computed: dtype of the operators that use it, below autocast.
        sliced: whether tensor parallelism split it.
    """

    name: str
    tensor: Tensor
    gradient: str
    computed: str = ""
    sliced: bool = False


@dataclass(frozen=True)
class ModelBlock:
    """A part of the model that no stage boundary cuts.

    Attributes:
        name: path of the module, or ``before`` and ``after``.
        operators: in the order of running, forward then backward.
        weights: trainable tensors, sliced where the partition slices them.
        saved_bytes: bytes kept from the forward to the backward pass of one micro-batch (autograd's saved tensors, each
            storage once, without weights).
        core_saved_bytes: the part of ``saved_bytes`` that attention's scores, softmax and dropout keep (module ``core``), which
            selective recomputation gives up (Korthikanti et al. 2022, section 5).
        output: what the next block, or the next stage, receives.
        recomputed: how many of its forward operators full recomputation runs again: torch stops at the last one whose answer
            the backward pass reads (``early_stop`` of torch.utils.checkpoint).
        working_bytes: bytes that it holds for a while beside its operators' own tensors (keys and values of other ranks).
    """

    name: str
    operators: tuple[Operator, ...]
    weights: tuple[Weight, ...] = ()
    saved_bytes: float = 0.0
    core_saved_bytes: float = 0.0
    output: Tensor | None = None
    recomputed: int = 0
    working_bytes: float = 0.0

    @cached_property
    def forward(self) -> tuple[Operator, ...]:
        """Operators of the forward pass."""
        return tuple(operator for operator in self.operators if operator.phase == "forward")

    @cached_property
    def backward(self) -> tuple[Operator, ...]:
        """Operators of the backward pass."""
        return tuple(operator for operator in self.operators if operator.phase == "backward")

    @cached_property
    def again(self) -> tuple[Operator, ...]:
        """Forward operators that full recomputation runs again."""
        return self.forward[: self.recomputed]

    @cached_property
    def core(self) -> tuple[Operator, ...]:
        """Forward operators of attention's scores, softmax and dropout, which selective recomputation runs again."""
        return tuple(operator for operator in self.forward if in_core(operator.module))


@dataclass(frozen=True)
class Graph:
    """One micro-batch of ``micro_batch`` samples through the whole model on one rank; equal blocks may be one object."""

    model: str
    precision: str
    micro_batch: int
    before: ModelBlock
    blocks: tuple[ModelBlock, ...]
    after: ModelBlock
    tied: tuple[str, ...] = ()
    """Weights of ``after`` that ``before`` holds too (tied embeddings): stored once, reduced over both ends of a pipeline."""

    @property
    def parts(self) -> tuple[ModelBlock, ...]:
        """All of it in order."""
        return self.before, *self.blocks, self.after

    def parameters(self, ranks: int = 1) -> int:
        """Trainable elements over so many tensor ranks, tied ones once."""
        held = [weight for block in self.parts for weight in block.weights]
        tied = [weight for weight in self.after.weights if weight.name in self.tied]
        whole, twice = (sum(one.tensor.elements * (ranks if one.sliced else 1) for one in each) for each in (held, tied))
        return whole - twice


_CHAINS: frozenset[Kind] = frozenset({"elementwise", "softmax"})
"""What may run as one kernel with its neighbours."""


def fused_bytes(operators: Sequence[Operator], reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]]) -> list[float]:
    """Bytes of each operator when neighbouring one-pass operators run as one kernel, shape (n,): all at the chain's first.

    Megatron's fused kernels (bias and GELU; bias, dropout and addition; scale, mask and softmax) and torch.compile read each
    input of a chain once and write only what somebody outside the chain needs. Its other operators have 0.

    An operator joins the chain of a tensor that it reads if both take one pass over as many elements. A chain stays within the
    order of running, forward or backward; what backward reads of a forward chain is written.

    Args:
        operators: in the order of running.
        reads, writes: the storage of each input and output.
    """
    sizes = [max((tensor.elements for tensor in operator.outputs), default=0) for operator in operators]
    chain_of_storage: dict[int, int] = {}
    readers: dict[int, set[int]] = defaultdict(set)  # storage -> chains that read it
    made: dict[int, dict[int, int]] = defaultdict(dict)
    taken: dict[int, dict[int, int]] = defaultdict(dict)
    for index, (operator, read, written) in enumerate(zip(operators, reads, writes, strict=True)):
        chain = index  # the first operator of the chain
        if operator.kind in _CHAINS:
            for storage in read:
                first = chain_of_storage.get(storage, index)
                if operators[first].phase == operator.phase and sizes[first] == sizes[index] and first != index:
                    chain = first
                    break
        for storage, size in zip(read, read_bytes(operator.name, operator.inputs, operator.outputs), strict=True):
            readers[storage].add(chain)
            if storage not in made[chain]:
                taken[chain][storage] = max(size, taken[chain].get(storage, 0))
        for storage, tensor in zip(written, operator.outputs, strict=True):
            made[chain][storage] = tensor.bytes
            if operator.kind in _CHAINS:
                chain_of_storage[storage] = chain
            else:
                chain_of_storage.pop(storage, None)
    # Nobody reads the last tensor of a graph, the loss or a gradient; it is written all the same.
    return [
        float(sum(taken[chain].values())) + sum(size for storage, size in made[chain].items() if readers[storage] != {chain})
        for chain in range(len(operators))
    ]
