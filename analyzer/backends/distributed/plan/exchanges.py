"""Operators that mark what tensor ranks exchange, and layers that hold a rank's slice (Shoeybi et al. 2019, section 3).

With the marks a trace of one rank shows where it communicates, forward and backward. On one process they have the right shape
and no partner. Each has its conjugate as gradient (Shoeybi et al.: f and g; Korthikanti et al. 2022, section 4.2: g and g-bar).
Autocast has no rule for them: they exchange the dtype that they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.errors import InputError

SEQUENCE_AXIS = -2
"""Activations are (batch, sequence, hidden), or (tokens, hidden)."""


def _mark(gradient: Callable[..., Tensor]) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Make an operator of torch of a function on real and meta tensors, with the exchange that its gradient takes."""

    def register(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
        operator: Any = torch.library.custom_op(f"epochcast::{kernel.__name__}", kernel, mutates_args=())
        operator.register_fake(kernel)
        operator.register_autograd(
            lambda ctx, given: (gradient(given, *ctx.group), *(None for _ in ctx.group)), setup_context=_keep_group
        )
        return cast("Callable[..., Tensor]", operator)

    return register


def _keep_group(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.group = inputs[1:]


@_mark(lambda gradient, ranks: gradient)
def all_reduce(tensor: Tensor, ranks: int) -> Tensor:
    """Sum over the tensor ranks, any shape; its gradient passes unchanged (g of Shoeybi et al. 2019)."""
    return tensor.clone()


@_mark(lambda gradient, ranks: all_reduce(gradient, ranks))
def copy_to_tensor_ranks(tensor: Tensor, ranks: int) -> Tensor:
    """The tensor itself, which every rank holds; its gradient is all-reduced (f of Shoeybi et al. 2019)."""
    return tensor.clone()


@_mark(lambda gradient, ranks, dim, partial: (reduce_scatter if partial else scatter_sequence)(gradient, ranks, dim))
def all_gather(tensor: Tensor, ranks: int, dim: int, partial: bool = True) -> Tensor:
    """The parts of all ranks, ``ranks`` times as long along ``dim``.

    Its gradient is reduce-scattered where the ranks compute different things with the whole, each a part of the gradient
    (``partial``); where all compute the same, each keeps its own part.
    """
    return torch.cat([tensor] * ranks, dim)


@_mark(lambda gradient, ranks, dim: all_gather(gradient, ranks, dim))
def reduce_scatter(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    """This rank's part along ``dim`` of the sum over all ranks; its gradient is all-gathered."""
    return _part(tensor, ranks, dim)


@_mark(lambda gradient, ranks, dim: all_gather(gradient, ranks, dim))
def scatter_sequence(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    """This rank's part along ``dim`` of a tensor that every rank holds; its gradient is all-gathered."""
    return _part(tensor, ranks, dim)


def _part(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    length = int(tensor.shape[dim])
    if length % ranks:
        raise InputError(
            f"a sequence of {length} does not divide over {ranks} tensor ranks; give a multiple, or leave out sequence "
            "parallelism"
        )
    return tensor.narrow(dim, 0, length // ranks).clone()


@dataclass
class Region:
    """Where activations enter what the tensor ranks share out, and leave it; one per module that owns sliced layers.

    Layers that read one tensor (query, key and value) enter once, so that their gradients are added before they are reduced.
    """

    ranks: int
    sequence_parallel: bool = False
    _entered: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def enter(self, activations: Tensor) -> Tensor:
        """The activations in whole on every rank."""
        if self._entered is None or all(activations is not known for known in self._entered):
            entered = (
                all_gather(activations, self.ranks, SEQUENCE_AXIS)
                if self.sequence_parallel
                else copy_to_tensor_ranks(activations, self.ranks)
            )
            self._entered = activations, entered
        return self._entered[1]

    def leave(self, partial: Tensor) -> Tensor:
        """The sum of the ranks' partial results, split along the sequence under sequence parallelism."""
        if self.sequence_parallel:
            return reduce_scatter(partial, self.ranks, SEQUENCE_AXIS)
        return all_reduce(partial, self.ranks)

    def forget(self, *_: object) -> None:
        """Let go of the activations; the owner's forward hook."""
        self._entered = None


class ColumnParallelLinear(nn.Linear):
    """Some of a linear layer's output features; every rank reads the whole input."""

    region: Region

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, in) to (…, out of this rank)."""
        return super().forward(self.region.enter(input))


class VocabularyParallelHead(ColumnParallelLinear):
    """The logits of some words, for a cross-entropy that is computed where they lie."""

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, hidden) to (…, words of this rank)."""
        # Under sequence parallelism the ranks' parts are put together behind the last block.
        logits = functional.linear(input, self.weight, self.bias) if self.region.sequence_parallel else super().forward(input)
        # Per token and in FP32 the loss needs of all ranks the largest logit, the sum of exponentials and the target's logit.
        for _ in range(3):
            all_reduce(logits.new_empty(logits.shape[:-1], dtype=torch.float32), self.region.ranks)
        return logits


class RowParallelLinear(nn.Linear):
    """Some of a linear layer's input features; the ranks' products are added up, then comes the bias."""

    region: Region

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, in of this rank) to (…, out)."""
        answer = self.region.leave(functional.linear(input, self.weight))
        return answer if self.bias is None else answer + self.bias.to(answer.dtype)


class VocabularyParallelEmbedding(nn.Embedding):
    """Some rows of an embedding; the words of other ranks count as zero, and the ranks' answers are added up."""

    region: Region
    first: int
    """The first word of this rank."""

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…) to (…, hidden)."""
        foreign = (input < self.first) | (input >= self.first + self.weight.shape[0])
        rows = functional.embedding((input - self.first).masked_fill(foreign, 0), self.weight)
        return all_reduce(rows.masked_fill(foreign.unsqueeze(-1), 0.0), self.region.ranks)
