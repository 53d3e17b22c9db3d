"""Operators that mark where tensor parallelism communicates, so that a trace of one rank shows them, forward and backward.

On one process they have the right shape and no partner: an all-reduce is the identity, an all-gather repeats, a reduce-scatter
keeps the first part. Each has its conjugate as gradient (Shoeybi et al. 2019, section 3: f and g; Korthikanti et al. 2022,
section 4.2: g and g-bar). Autocast has no rule for them: they exchange the dtype that they are given.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FREE = ("copy_to_tensor_ranks", "scatter_sequence")
"""Operators without communication forward; they stand in a trace only because their gradients communicate."""


@torch.library.custom_op("epochcast::all_reduce", mutates_args=())
def all_reduce(tensor: Tensor, ranks: int) -> Tensor:
    """Sum over the tensor ranks, any shape; its gradient passes unchanged (g of Shoeybi et al. 2019)."""
    return tensor.clone()


@torch.library.custom_op("epochcast::copy_to_tensor_ranks", mutates_args=())
def copy_to_tensor_ranks(tensor: Tensor, ranks: int) -> Tensor:
    """The tensor itself, which every rank holds; its gradient is all-reduced (f of Shoeybi et al. 2019)."""
    return tensor.clone()


@torch.library.custom_op("epochcast::all_gather", mutates_args=())
def all_gather(tensor: Tensor, ranks: int, dim: int, partial: bool = True) -> Tensor:
    """The parts of all ranks, ``ranks`` times as long along ``dim``.

    Its gradient is reduce-scattered where the ranks compute different things with the whole, each a part of the gradient
    (``partial``); where all compute the same, each keeps its own part.
    """
    return torch.cat([tensor] * ranks, dim)


@torch.library.custom_op("epochcast::reduce_scatter", mutates_args=())
def reduce_scatter(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    """This rank's part along ``dim`` of the sum over all ranks; its gradient is all-gathered."""
    return tensor.narrow(dim, 0, tensor.shape[dim] // ranks).clone()


@torch.library.custom_op("epochcast::scatter_sequence", mutates_args=())
def scatter_sequence(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    """This rank's part along ``dim`` of a tensor that every rank holds; its gradient is all-gathered."""
    return tensor.narrow(dim, 0, tensor.shape[dim] // ranks).clone()


def _same(tensor: Tensor, ranks: int) -> Tensor:
    return torch.empty_like(tensor)


def _longer(tensor: Tensor, ranks: int, dim: int, partial: bool = True) -> Tensor:
    shape = list(tensor.shape)
    shape[dim] *= ranks
    return tensor.new_empty(shape)


def _shorter(tensor: Tensor, ranks: int, dim: int) -> Tensor:
    shape = list(tensor.shape)
    shape[dim] //= ranks
    return tensor.new_empty(shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *ctx.group = inputs


def _unchanged(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return gradient, None


def _conjugate(operator: Any) -> Any:
    """A backward function that runs ``operator`` over the same ranks."""
    return lambda ctx, gradient: (operator(gradient, *ctx.group), *(None for _ in ctx.group))


def _gather_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
    ranks, dim, partial = ctx.group
    return (reduce_scatter if partial else scatter_sequence)(gradient, ranks, dim), None, None, None


all_reduce.register_fake(_same)
all_reduce.register_autograd(_unchanged)
copy_to_tensor_ranks.register_fake(_same)
copy_to_tensor_ranks.register_autograd(_conjugate(all_reduce), setup_context=_keep)
all_gather.register_fake(_longer)
all_gather.register_autograd(_gather_backward, setup_context=_keep)
reduce_scatter.register_fake(_shorter)
reduce_scatter.register_autograd(_conjugate(all_gather), setup_context=_keep)
scatter_sequence.register_fake(_shorter)
scatter_sequence.register_autograd(_conjugate(all_gather), setup_context=_keep)
