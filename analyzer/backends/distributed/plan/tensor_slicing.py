"""Tensor parallelism on a module: which weights a rank holds only a slice of, and the slicing (Algorithm 1, lines 12-15).

Which slices are needed a plan says, or the module's own data flow (:mod:`.linear_pairs`).
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.backends.distributed.linear_pairs import linear_pairs
from epochcast.analyzer.backends.distributed.plan.tensor_parallel_layers import (
    SEQUENCE_AXIS,
    ColumnParallelLinear,
    Region,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    VocabularyParallelHead,
    all_gather,
    scatter_sequence,
)
from epochcast.analyzer.errors import InputError

RULES = ("column", "row", "vocabulary", "heads")
"""Split a linear layer's output features, or its input features; the rows of an embedding or the words of a head; divide a
number of heads. ``column:NAME`` splits by whole heads, as many as the owner's attribute NAME: ranks share them where they are
fewer than the ranks and the owner has others that are not (grouped queries).
"""


def slice_for_tensor_parallel(
    model: nn.Module,
    tensor: int,
    sequence_parallel: bool = False,
    plan: Mapping[str, str] | None = None,
    blocks: str | None = "blocks",
    rank: int = 0,
) -> nn.Module:
    """A copy of ``model`` as tensor rank ``rank`` of ``tensor`` holds it, with marks where the ranks communicate.

    Sliced parameters carry ``tensor_sliced = True``. Words are padded to a multiple of the ranks, as Megatron pads them.

    Args:
        model: on the meta device, or on the CPU to have the rank's real values.
        tensor: tensor ranks; with 1 the answer is the model itself.
        sequence_parallel: split norms and dropout along the sequence (Korthikanti et al. 2022, section 4.2).
        plan: patterns (:mod:`fnmatch`) of module paths -> ``column``, ``row`` or ``vocabulary``, and of attribute paths ->
            ``heads``; None: its pairs of linear layers.
        blocks: path of the repeated blocks, which sequence parallelism needs.
        rank: whose slices.

    Raises:
        InputError: nothing can be sliced, a pattern matches nothing, or a size does not divide.
    """
    if tensor == 1:
        return model
    rules = dict(_planned(model, plan)) if plan is not None else linear_pairs(model)
    if not rules:
        raise InputError(
            f"{type(model).__name__} has no known split over {tensor} tensor ranks; give a plan, such as "
            '{"*.fc1": "column", "*.fc2": "row"}, or train with 1'
        )
    sliced = copy.deepcopy(model)
    _Slicer(sliced, tensor, rank, sequence_parallel).run(rules)
    if sequence_parallel:
        _split_sequence(sliced, tensor, blocks)
    return sliced


def slice_weight(weight: nn.Parameter, dim: int, part: int, parts: int) -> nn.Parameter:
    """Part ``part`` of ``parts`` of a weight along ``dim``, with zeros behind its end where it does not divide."""
    size = -(-weight.shape[dim] // parts)
    start = min(part * size, weight.shape[dim])
    stop = min(start + size, weight.shape[dim])
    piece = weight.detach().narrow(dim, start, stop - start).clone()
    if missing := size - (stop - start):
        behind = [0, 0] * (weight.dim() - dim - 1)
        piece = functional.pad(piece, [*behind, 0, missing])
    made = nn.Parameter(piece, requires_grad=weight.requires_grad)
    made.tensor_sliced = True
    return made


def _planned(model: nn.Module, plan: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The layers and attributes that a plan's patterns match."""
    modules = dict(model.named_modules(remove_duplicate=False))
    layers = [path for path, module in modules.items() if isinstance(module, (nn.Linear, nn.Embedding))]
    for pattern, rule in plan.items():
        if rule.partition(":")[0] not in RULES:
            raise InputError(f"the tensor plan has {rule!r} at {pattern!r}; the rules are {', '.join(RULES)}")
        names = layers
        if rule == "heads":
            names = [
                f"{path}.{name}" if path else name
                for path, module in modules.items()
                for name, value in vars(module).items()
                if type(value) is int
            ]
        if not (matches := [name for name in names if fnmatchcase(name, pattern)]):
            what = "integer attribute" if rule == "heads" else "linear layer or embedding"
            raise InputError(
                f"the tensor plan's {pattern!r} matches no {what} of {type(model).__name__}; it has {_some(names)}"
            )
        yield from ((name, rule) for name in matches)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "none"


@dataclass
class _Slicer:
    """Slices layer by layer in place; what two layers share is sliced once."""

    model: nn.Module
    ranks: int
    rank: int
    sequence_parallel: bool
    _regions: dict[nn.Module, Region] = field(default_factory=dict)
    _layers: dict[nn.Module, nn.Module] = field(default_factory=dict)
    _weights: dict[nn.Parameter, tuple[tuple[int, int], nn.Parameter]] = field(default_factory=dict)
    _heads: dict[nn.Module, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """How many heads an owner has over all ranks, by attribute."""
    _head_attributes: set[tuple[nn.Module, str]] = field(default_factory=set)
    """Owners and the attributes by whose heads a layer of theirs is split."""

    def run(self, rules: Mapping[str, str]) -> None:
        """Put the slice of every layer, and the rank's number of heads, in its place."""
        for path, rule in rules.items():
            owner, name = self._place(path)
            rule, _, attribute = rule.partition(":")
            if rule == "heads" or attribute:
                heads = getattr(owner, attribute or name, None)
                if type(heads) is not int:
                    raise InputError(
                        f"{path} is to be split by {attribute or name!r}, which is no integer attribute of "
                        f"{type(owner).__name__}; name the one with its number of heads"
                    )
                self._heads[owner][attribute or name] = heads
            if attribute:
                self._head_attributes.add((owner, attribute))
        for path, rule in rules.items():
            owner, name = self._place(path)
            if rule == "heads":
                setattr(owner, name, self._rank_heads(path, owner, name))
                continue
            layer = owner.get_submodule(name)
            if layer not in self._layers:
                self._layers[layer] = self._sliced(path, owner, layer, rule)
                self._layers[self._layers[layer]] = self._layers[layer]  # reached again where two owners share a layer
            setattr(owner, name, self._layers[layer])

    def _place(self, path: str) -> tuple[nn.Module, str]:
        parent, _, name = path.rpartition(".")
        return self.model.get_submodule(parent), name

    def _rank_heads(self, path: str, owner: nn.Module, name: str) -> int:
        """How many of the owner's heads a rank has; one that others have too where ranks share them."""
        heads, most = self._heads[owner][name], max(self._heads[owner].values())
        shared = (owner, name) in self._head_attributes and heads < most and not self.ranks % heads and not most % self.ranks
        if heads % self.ranks and not shared:
            raise InputError(f"{path} is {heads}, which does not divide over {self.ranks} tensor ranks; use a divisor")
        return max(1, heads // self.ranks)

    def _sliced(self, path: str, owner: nn.Module, layer: nn.Module, rule: str) -> nn.Module:
        rule, _, heads = rule.partition(":")
        if isinstance(layer, nn.Embedding) and rule == "vocabulary":
            return self._embedding(path, owner, layer)
        if not isinstance(layer, nn.Linear):
            raise InputError(
                f"{path} is a {type(layer).__name__}, which cannot be split by {rule}; linear layers can, and embeddings by "
                "vocabulary"
            )
        parts = self.ranks
        if heads:
            parts = self._heads[owner][heads] // self._rank_heads(f"{heads} of {path}", owner, heads)
        size = layer.in_features if rule == "row" else layer.out_features
        if rule != "vocabulary" and size % parts:
            raise InputError(
                f"{path} has {size} {'input' if rule == 'row' else 'output'} features, which do not divide over {parts} tensor "
                "ranks; take a divisor"
            )
        made: ColumnParallelLinear | RowParallelLinear
        part, bias = self.rank * parts // self.ranks, layer.bias
        if rule == "row":
            weight = self._weight(path, layer.weight, 1, part, parts)
            made = RowParallelLinear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
        else:
            weight = self._weight(path, layer.weight, 0, part, parts)
            bias = bias if bias is None else self._weight(path, bias, 0, part, parts)
            kind = VocabularyParallelHead if rule == "vocabulary" else ColumnParallelLinear
            made = kind(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
        made.weight, made.bias, made.region = weight, bias, self._region(owner)
        return made.train(layer.training)

    def _embedding(self, path: str, owner: nn.Module, layer: nn.Embedding) -> nn.Module:
        weight = self._weight(path, layer.weight, 0, self.rank, self.ranks)
        made = VocabularyParallelEmbedding(*weight.shape, device="meta")
        made.weight, made.region, made.first = weight, self._region(owner), self.rank * weight.shape[0]
        return made.train(layer.training)

    def _weight(self, path: str, weight: nn.Parameter, dim: int, part: int, parts: int) -> nn.Parameter:
        """The slice of a weight, one for all layers that are tied by it."""
        if weight not in self._weights:
            self._weights[weight] = (dim, parts), slice_weight(weight, dim, part, parts)
        how, made = self._weights[weight]
        if how != (dim, parts):
            raise InputError(
                f"the weight of {path} is tied to a weight with another split; split both by vocabulary, or neither"
            )
        return made

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


def _split_sequence(model: nn.Module, ranks: int, blocks: str | None) -> None:
    """Hand the blocks their part of the sequence, and put it together behind the last."""
    modules = dict(model.named_modules())
    container = list(modules[blocks].children()) if blocks in modules else []
    if not container:
        raise InputError(
            f"{type(model).__name__} has no container of repeated blocks, where sequence parallelism begins and ends; "
            "leave it out"
        )

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
