"""Peak memory of training a network, and whether it fits a GPU: an estimate from shapes alone, and trees that correct it.

The estimate runs two training steps in FP32 with Adam through torch's caching allocator: what autograd saves for the way back,
gradients, workspaces of cuDNN, weights and states. nvidia-smi sees what the allocator reserved, and CUDA's context.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.regressor.trees import Trees

Floats = NDArray[np.float64]
Tensor = tuple[int, ...]
"""Which operators wrote it: several where answers are added or joined; none for the batch that comes in."""

CONTEXT = 1447 * 2**20
"""Bytes of CUDA's context and cuBLAS: where a line of measured over counted memory starts, every third measured MLP (A100)."""

CUDNN = 320 * 2**20
"""Bytes that cuDNN's kernels add to it: that of every third measured CNN (1767 MiB), less :data:`CONTEXT`."""

_ELEMENT = 4  # bytes, FP32
_SAVE_ANSWER = {"relu", "tanh", "softmax"}  # their derivatives follow from what they answer (torch's derivatives.yaml)
_SAVE_NEITHER = {"dropout", "add", "identity"}
_MASK_BYTES = {"dropout": 1, "max_pool": 8}
"""Of each element that is written: what was kept, as bool, and where it came from, as int64 (torch's native_dropout and
max_pool2d_with_indices)."""


_MIB = 2**20
_ROUND = 512
_SMALL = _MIB  # up to here from segments of _SMALL_SEGMENT
_SMALL_SEGMENT = 2 * _MIB
_LARGE = 10 * _MIB  # from here segments as large as the request, in multiples of _STEP; below of _LARGE_SEGMENT
_LARGE_SEGMENT = 20 * _MIB
_STEP = 2 * _MIB


@dataclass(eq=False)
class MemoryBlock:
    """A piece of a segment and its neighbours there; ``used`` is the rounded size of the request, 0 where it is free."""

    size: int
    small: bool
    number: int
    used: int = 0
    before: MemoryBlock | None = None
    after: MemoryBlock | None = None


class CachingAllocator:
    """What torch's allocator takes from the device for a series of requests, best fit first.

    It asks the device for whole segments, cuts blocks from them and keeps what is given back, so a device's used memory is what
    the process once reserved. Sizes are those of CUDACachingAllocator.cpp in torch 2 with its default settings.

    Attributes:
        reserved: bytes of all segments.
        most_live: the most bytes in use at once.
    """

    def __init__(self) -> None:
        self.reserved = self.most_live = self._live = self._blocks = 0
        self._free: dict[bool, list[tuple[int, int, MemoryBlock]]] = {True: [], False: []}

    def take(self, size: float) -> MemoryBlock:
        """Take a block of ``size`` bytes."""
        rounded = max(-(-int(size) // _ROUND), 1) * _ROUND
        small = rounded <= _SMALL
        free = self._free[small]
        place = bisect_left(free, rounded, key=lambda entry: entry[0])
        if place < len(free):
            block = free.pop(place)[2]
        else:
            exact = -(-rounded // _STEP) * _STEP
            block = self._block(_SMALL_SEGMENT if small else _LARGE_SEGMENT if rounded < _LARGE else exact, small)
            self.reserved += block.size
        rest = block.size - rounded
        if rest >= _ROUND if small else rest > _SMALL:
            other = self._block(rest, small)
            other.before, other.after = block, block.after
            if block.after:
                block.after.before = other
            block.after, block.size = other, rounded
            insort(free, (rest, other.number, other))
        block.used = rounded
        self._live += rounded
        self.most_live = max(self.most_live, self._live)
        return block

    def give(self, block: MemoryBlock) -> None:
        """Give a block back; free neighbours become one."""
        self._live -= block.used
        block.used = 0
        free = self._free[block.small]
        for other in (block.after, block.before):
            if other and not other.used:
                free.pop(bisect_left(free, (other.size, other.number)))
                first, second = (block, other) if other is block.after else (other, block)
                first.size, first.after = first.size + second.size, second.after
                if second.after:
                    second.after.before = first
                block = first
        insort(free, (block.size, block.number, block))

    def _block(self, size: int, small: bool) -> MemoryBlock:
        self._blocks += 1
        return MemoryBlock(size, small, self._blocks)


class MemoryEstimate(NamedTuple):
    """Bytes of a training step: ``peak`` on the device, ``live`` of it in use at once, and ``bare`` and ``bare_live``, the same
    without cuDNN's workspaces, to which it can do."""

    peak: float
    live: float
    bare: float
    bare_live: float


def base_memory(sample: Sample) -> int:
    """Bytes that CUDA and its libraries take of an A100 before anything is trained."""
    return CONTEXT + (CUDNN if "convolution" in sample.graph.words else 0)


def estimate(sample: Sample) -> MemoryEstimate:
    """Peak memory of training in FP32 with Adam, from shapes alone."""
    runs = [_Steps(sample, workspace).run() for workspace in (True, False)]
    return MemoryEstimate(*(base_memory(sample) + amount for run in runs for amount in (run.reserved, run.most_live)))


class _Steps:
    """Training steps as requests to an allocator."""

    def __init__(self, sample: Sample, workspace: bool) -> None:
        graph = sample.graph
        self._words, self._workspace, self._memory = graph.words, workspace, CachingAllocator()
        self._read, self._written, self._weights = (
            (_ELEMENT * graph.column(name)).tolist() for name in ("read", "written", "weights")
        )
        writers: list[list[int]] = [[] for _ in self._words]
        for before, after in graph.edges.T.tolist():
            writers[after].append(before)
        self._inputs: list[Tensor] = [tuple(own) for own in writers]
        self._readers: dict[Tensor, list[int]] = {}
        last: dict[Tensor, int] = {(number,): number for number in range(len(writers))}
        saved: dict[Tensor, int] = {}  # the first operator that saves it is the last to need it on the way back
        for number, (word, read) in enumerate(zip(self._words, self._inputs, strict=True)):
            self._readers.setdefault(read, []).append(number)
            last.update({(writer,): number for writer in read} | {read: number})
            if word not in _SAVE_NEITHER:
                saved.setdefault((number,) if word in _SAVE_ANSWER else read, number)
        self._forward_ends: list[list[Tensor]] = [[] for _ in writers]
        self._backward_ends: list[list[Tensor]] = [[] for _ in writers]
        for tensor, number in last.items():
            ends, at = (self._backward_ends, saved[tensor]) if tensor in saved else (self._forward_ends, number)
            if tensor:
                ends[at].append(tensor)

    def run(self) -> CachingAllocator:
        """Two steps: Adam's states come with the first and lie next to the second."""
        memory, weights = self._memory, [size for size in self._weights if size]
        gradients: list[MemoryBlock] = []
        batch: MemoryBlock | None = None
        for size in weights:
            memory.take(size)
        for step in range(2):
            following = memory.take(self._read[0])
            for block in (batch, *gradients):
                if block:
                    memory.give(block)
            batch, gradients = following, self._step(following)
            for size in weights if step == 0 else ():
                memory.take(size)
                memory.take(size)
            for block in [memory.take(size) for size in weights]:  # roots of the second moments, of all weights at once
                memory.give(block)
        return memory

    def _pass_through(self, size: float) -> None:
        self._memory.give(self._memory.take(size))

    def _convolve(self, number: int) -> None:
        """cuDNN's workspace, taken as copies of input and output: of 19 forms of it among those closest to every third CNN."""
        if self._workspace and self._words[number] == "convolution":
            self._pass_through(self._read[number] + self._written[number])

    def _step(self, batch: MemoryBlock) -> list[MemoryBlock]:
        """Forward and back; the gradients of the weights."""
        memory = self._memory
        tensors: dict[Tensor, MemoryBlock] = {(): batch}
        masks: dict[int, MemoryBlock] = {}
        for number, word in enumerate(self._words):
            if self._inputs[number] not in tensors:
                tensors[self._inputs[number]] = memory.take(self._read[number])
            tensors[number,] = memory.take(self._written[number])
            if word in _MASK_BYTES:
                masks[number] = memory.take(self._written[number] / _ELEMENT * _MASK_BYTES[word])
            self._convolve(number)
            self._end(tensors, self._forward_ends[number])
        gradients: dict[Tensor, MemoryBlock] = {(len(self._words) - 1,): memory.take(self._written[-1])}
        of_weights = []
        for number in reversed(range(len(self._words))):
            read, gradient = self._inputs[number], None
            if read:
                gradient = memory.take(self._read[number])
                self._convolve(number)
            if self._weights[number]:
                if self._words[number] == "leaky_relu":  # PReLU: the slope's gradient of each element
                    self._pass_through(self._written[number])
                of_weights.append(memory.take(self._weights[number]))
                self._convolve(number)
            self._end(gradients, [(number,)])
            self._end(tensors, self._backward_ends[number])
            self._end(masks, [number])
            if gradient:
                self._arrive(gradients, read, gradient, number)
        self._end(tensors, [tensor for tensor in tensors if tensor])
        self._end(gradients, list(gradients))
        return of_weights

    def _arrive(self, gradients: dict[Tensor, MemoryBlock], read: Tensor, gradient: MemoryBlock, number: int) -> None:
        """A gradient is added to that of other readers; that of a sum or join goes on to all its parts."""
        if read in gradients:
            self._memory.give(gradient)
        else:
            gradients[read] = gradient
        if len(read) > 1 and number == self._readers[read][0]:
            for writer in read:
                if (writer,) not in gradients:
                    gradients[writer,] = self._memory.take(self._written[writer])
            self._end(gradients, [read])

    def _end(self, blocks: dict[Any, MemoryBlock], names: Sequence[Any]) -> None:
        for name in names:
            block = blocks.pop(name, None)
            if block:
                self._memory.give(block)


class PeakMemory:
    """Boosted trees on the logarithm of measured over estimated peak memory.

    Trainings that ran out of memory say only that they did: a logistic regression on how the GPU's memory compares with the
    predicted peak and the live estimate, both by folds that leave their network out, learns from them. Where there are none,
    the predicted peak decides.
    """

    def __init__(self, trees: Trees, half_width: float, risk: Floats | None) -> None:
        self.trees, self.half_width, self.risk = trees, half_width, risk

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Bytes, the ends of their 90 % interval, and the probability of running out of the GPU's memory; shape (4, n)."""
        memory = estimates(samples)
        learnt = self.trees.predict(rows_of(samples, memory))
        peak = memory[:, 0] * np.exp(learnt)
        factor = np.exp(self.half_width)
        demanded = demand(samples, memory, learnt)
        if self.risk is None:
            probability = (demanded[:, 0] > 0).astype(float)
        else:
            probability = 1 / (1 + np.exp(-(demanded @ self.risk[:-1] + self.risk[-1])))
        return np.stack([peak, peak / factor, peak * factor, probability])

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Take what was fitted: numbers as JSON, and arrays."""
        risk = None if settings["risk"] is None else np.array(settings["risk"], dtype=float)
        return cls(Trees(**arrays["trees"]), float(settings["half_width"]), risk)


def estimates(samples: Sequence[Sample]) -> Floats:
    """A :class:`MemoryEstimate` of each, shape (n, 4)."""
    return np.array([estimate(sample) for sample in samples], dtype=float).reshape(-1, len(MemoryEstimate._fields))


def rows_of(samples: Sequence[Sample], memory: Floats) -> Floats:
    """Sizes that matter to memory and what the estimate says of them, as logarithms, shape (n, 12)."""
    added = []
    for sample in samples:
        graph = sample.graph
        written, read, weights = (graph.column(name) for name in ("written", "read", "weights"))
        moved = (written + read)[[word == "convolution" for word in graph.words]]
        largest = (weights.max(), written.max(), moved.max(initial=0.0))
        added.append([graph.batch, len(graph), weights.sum(), written.sum(), read[0], *largest])
    peak, live, bare, bare_live = np.log(memory).T
    sizes = np.log1p(np.array(added).reshape(len(samples), -1))
    return np.column_stack([sizes, peak, peak - live, peak - bare, live - bare_live])


def demand(samples: Sequence[Sample], memory: Floats, learnt: Floats) -> Floats:
    """Logarithms of predicted peak and of live estimate over the GPU's memory, shape (n, 2)."""
    capacity = np.log([float(sample.gpu.memory) for sample in samples])
    return np.column_stack([np.log(memory[:, 0]) + learnt - capacity, np.log(memory[:, 1]) - capacity])
