"""What two processes train together over loopback: a residual MLP under data, tensor and pipeline parallelism, nothing hidden.

Data parallelism is torch's DistributedDataParallel; tensor parallelism splits each block's first layer by columns and its
second by rows and sums what they give (Shoeybi et al. 2019, section 3); the pipeline sends activations forward and gradients
back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from epochcast.analyzer.backends.distributed.plan.job import ScheduleName

RANKS = 2


class _SumForward(torch.autograd.Function):
    """Sums over the ranks on the way forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _SumBackward(torch.autograd.Function):
    """Sums over the ranks on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Block(nn.Module):
    """Norm, two linear layers with a ReLU between them, and the residual; ``inner`` is a rank's share of the width."""

    def __init__(self, hidden: int, inner: int, exchange: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.column, self.row = nn.Linear(hidden, inner), nn.Linear(inner, hidden, bias=False)
        self.exchange = exchange

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, hidden)."""
        y = self.norm(x)
        y = self.row(torch.relu(self.column(_SumBackward.apply(y) if self.exchange else y)))
        return x + (_SumForward.apply(y) if self.exchange else y)


class Mlp(nn.Module):
    """Blocks; the whole model answers its loss, a stage that is not the last what it sends on."""

    def __init__(self, hidden: int, inner: int, layers: int, exchange: bool = False, loss: bool = True) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(hidden, inner, exchange) for _ in range(layers))
        self.loss = loss

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, hidden)."""
        for block in self.blocks:
            x = block(x)
        return x.square().mean() if self.loss else x


def _optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9)


def data_parallel(hidden: int, layers: int, batch: int) -> Callable[[], None]:
    """An iteration of each rank on its own ``batch``."""
    module = DistributedDataParallel(Mlp(hidden, 4 * hidden, layers))
    return _plain(module, torch.randn(batch, hidden))


def tensor_parallel(hidden: int, layers: int, batch: int) -> Callable[[], None]:
    """An iteration of both ranks on the same ``batch``, each with its share of every layer."""
    return _plain(Mlp(hidden, 4 * hidden // RANKS, layers, exchange=True), torch.ones(batch, hidden))


def _plain(module: nn.Module, inputs: Tensor) -> Callable[[], None]:
    optimizer = _optimizer(module)

    def iteration() -> None:
        module(inputs).backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def pipeline(hidden: int, layers: int, batch: int, micro_batches: int, schedule: ScheduleName) -> Callable[[], None]:
    """An iteration over ``micro_batches`` of ``batch`` each, half of the layers on each rank."""
    rank = dist.get_rank()
    last = rank == RANKS - 1
    module = Mlp(hidden, 4 * hidden, layers // RANKS, loss=last)
    optimizer, inputs = _optimizer(module), torch.randn(batch, hidden)
    ahead = micro_batches if schedule == "gpipe" else 1 if last else RANKS  # passes forward before the first one back
    order = [(True, number) for number in range(min(ahead, micro_batches))]
    for number in range(micro_batches):
        order += [(False, number)] + [(True, number + ahead)] * (number + ahead < micro_batches)
    received = torch.empty(batch, hidden)

    def iteration() -> None:
        kept: dict[int, tuple[Tensor, Tensor]] = {}
        sending = []
        for forward, micro_batch in order:
            if forward:
                x = inputs
                if last:
                    dist.recv(received, 0)
                    x = received.clone().requires_grad_()
                y = module(x)
                kept[micro_batch] = x, y
                if not last:
                    sending.append((y, dist.isend(y.detach(), 1)))
                continue
            x, y = kept.pop(micro_batch)
            if last:
                y.backward()
                sending.append((x.grad, dist.isend(x.grad, 0)))
            else:
                gradient = torch.empty_like(y)
                dist.recv(gradient, 1)
                y.backward(gradient)
        for _, work in sending:
            work.wait()
        optimizer.step()
        optimizer.zero_grad()

    return iteration
