"""Tensor parallelism on a module: which weights a rank holds only a slice of, and the slicing (Algorithm 1, lines 12-15).

Operators mark what tensor ranks exchange, and layers hold a rank's slice (Shoeybi et al. 2019, section 3). With the marks a
trace of one rank shows where it communicates, forward and backward. On one process they have the right shape and no partner.
Each has its conjugate as gradient (Shoeybi et al.: f and g; Korthikanti et al. 2022, section 4.2: g and g-bar). Autocast has
no rule for them: they exchange the dtype that they are given.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
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


_LINEAR = {"column": ColumnParallelLinear, "row": RowParallelLinear, "vocabulary": VocabularyParallelHead}


def slice_for_tensor_parallel(
    model: nn.Module,
    tensor: int,
    plan: Mapping[str, str],
    sequence_parallel: bool = False,
    blocks: str = "blocks",
    rank: int = 0,
) -> nn.Module:
    """A copy of ``model`` as tensor rank ``rank`` of ``tensor`` holds it, with marks where the ranks communicate.

    Sliced parameters carry ``tensor_sliced = True``. Words are padded to a multiple of the ranks, as Megatron pads them.

    Args:
        model: on the meta device, or on the CPU to have the rank's real values.
        tensor: tensor ranks; with 1 the answer is the model itself.
        plan: rules by path, in which modules may be patterns (:mod:`fnmatch`): ``column`` and ``row`` split a linear layer's
            output or input features, ``vocabulary`` the rows of an embedding or the words of a head, ``heads`` divides a number
            of heads. ``column:NAME`` splits by whole heads, as many as the owner's attribute NAME: ranks share them where they
            are fewer than the ranks and the owner has others that are not (grouped queries).
        sequence_parallel: split norms and dropout along the sequence (Korthikanti et al. 2022, section 4.2).
        blocks: path of the repeated blocks, where sequence parallelism begins and ends.
        rank: whose slices.

    Raises:
        InputError: a size or a number of heads does not divide, or a layer is of another kind.
    """
    if tensor == 1:
        return model
    sliced = copy.deepcopy(model)
    _Slicer(tensor, rank, sequence_parallel).run(sliced, plan)
    if sequence_parallel:
        _split_sequence(sliced, tensor, blocks)
    return sliced


@dataclass
class _Slicer:
    """Slices layer by layer in place; what two layers share is sliced once."""

    ranks: int
    rank: int
    sequence_parallel: bool
    _regions: dict[nn.Module, Region] = field(default_factory=dict)
    _done: set[nn.Module] = field(default_factory=set)
    _weights: dict[nn.Parameter, nn.Parameter] = field(default_factory=dict)
    _heads: dict[nn.Module, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """How many heads an owner has over all ranks, by attribute."""
    _by_heads: set[tuple[nn.Module, str]] = field(default_factory=set)
    """Owners and the attributes by whose heads a layer of theirs is split."""

    def run(self, model: nn.Module, plan: Mapping[str, str]) -> None:
        """Leave of every layer its slice, and of a number of heads the rank's."""
        rules: list[tuple[str, nn.Module, str, str, str]] = []
        for pattern, rule in plan.items():
            owners, _, name = pattern.rpartition(".")
            kind, _, heads = rule.partition(":")
            for path, owner in model.named_modules():
                if fnmatchcase(path, owners) and hasattr(owner, name):
                    rules.append((f"{path}.{name}".removeprefix("."), owner, name, kind, heads))
                    if kind == "heads" or heads:
                        self._heads[owner][heads or name] = getattr(owner, heads or name)
                    if heads:
                        self._by_heads.add((owner, heads))
        for path, owner, name, kind, heads in rules:
            if kind == "heads":
                setattr(owner, name, self._rank_heads(path, owner, name))
            elif (layer := getattr(owner, name)) not in self._done:
                self._done.add(layer)
                self._slice(path, owner, layer, kind, heads)

    def _rank_heads(self, path: str, owner: nn.Module, name: str) -> int:
        """How many of the owner's heads a rank has; one that others have too where ranks share them."""
        heads, most = self._heads[owner][name], max(self._heads[owner].values())
        shared = (owner, name) in self._by_heads and heads < most and not self.ranks % heads and not most % self.ranks
        if heads % self.ranks and not shared:
            raise InputError(f"{path} is {heads}, which does not divide over {self.ranks} tensor ranks; use a divisor")
        return max(1, heads // self.ranks)

    def _slice(self, path: str, owner: nn.Module, layer: nn.Module, rule: str, heads: str) -> None:
        embedding = isinstance(layer, nn.Embedding)
        if not embedding and not isinstance(layer, nn.Linear):
            raise InputError(f"{path} is a {type(layer).__name__}, which tensor ranks cannot split; use 1 of them")
        parts = self.ranks
        if heads:
            parts = self._heads[owner][heads] // self._rank_heads(f"{heads} of {path}", owner, heads)
        axis = 1 if rule == "row" else 0
        size = layer.weight.shape[axis]
        if rule != "vocabulary" and size % parts:
            raise InputError(
                f"{path} has {size} {'input' if rule == 'row' else 'output'} features, which do not divide over {parts} tensor "
                "ranks; take a divisor"
            )
        part = self.rank * parts // self.ranks
        layer.weight = self._part_of(layer.weight, axis, part, parts)
        if rule != "row" and getattr(layer, "bias", None) is not None:
            layer.bias = self._part_of(layer.bias, 0, part, parts)
        if embedding:
            layer.first = part * layer.weight.shape[0]
        else:
            layer.out_features, layer.in_features = layer.weight.shape
        layer.__class__ = VocabularyParallelEmbedding if embedding else _LINEAR[rule]
        layer.region = self._region(owner)

    def _part_of(self, weight: nn.Parameter, axis: int, part: int, parts: int) -> nn.Parameter:
        """Part ``part`` of ``parts`` of a weight along an axis, zeros behind its end; one for all layers that it ties."""
        if weight not in self._weights:
            behind = [0, 0] * (weight.dim() - axis - 1)
            padded = functional.pad(weight.detach(), [*behind, 0, -weight.shape[axis] % parts])
            made = self._weights[weight] = nn.Parameter(padded.chunk(parts, axis)[part].clone(), weight.requires_grad)
            made.tensor_sliced = True
        return self._weights[weight]

    def _region(self, owner: nn.Module) -> Region:
        if owner not in self._regions:
            region = self._regions[owner] = Region(self.ranks, self.sequence_parallel)
            owner.register_forward_hook(region.forget)
            if self.sequence_parallel and isinstance(getattr(owner, "core", None), nn.Module):
                # Attention of transformers takes its shapes from what it is given.
                owner.register_forward_pre_hook(partial(_enter, region), with_kwargs=True)
        return self._regions[owner]


def _enter(region: Region, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Have a module called with its activations in whole; they come first, or by name as ``hidden_states``."""
    if inputs:
        return (region.enter(inputs[0]), *inputs[1:]), named
    return inputs, {**named, "hidden_states": region.enter(named["hidden_states"])}


def _split_sequence(model: nn.Module, ranks: int, blocks: str) -> None:
    """Hand the blocks their part of the sequence, and put it together behind the last."""
    container = list(model.get_submodule(blocks).children())
    has_head = any(isinstance(module, VocabularyParallelHead) for module in model.modules())
    # Modules of their own, so that what they do belongs to no block.
    model.sequence_start = _Exchange(partial(scatter_sequence, ranks=ranks, dim=SEQUENCE_AXIS))
    model.sequence_end = _Exchange(partial(all_gather, ranks=ranks, dim=SEQUENCE_AXIS, partial=has_head))
    container[0].register_forward_pre_hook(lambda _, inputs: (model.sequence_start(inputs[0]), *inputs[1:]))
    container[-1].register_forward_hook(
        lambda _, __, answer: (
            (model.sequence_end(answer[0]), *answer[1:]) if isinstance(answer, tuple) else model.sequence_end(answer)
        )
    )


class _Exchange(nn.Module):
    """Activations as the tensor ranks exchange them."""

    def __init__(self, exchange: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.exchange = exchange

    def forward(self, activations: Tensor) -> Tensor:
        """Shape (…, sequence or its part, hidden) to the other of the two."""
        return self.exchange(activations)
