"""The graph of any micro-batch from those of two: every shape and count of a network is affine in the batch."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

from .graph import Block, Graph


def at_micro_batch(small: Graph, large: Graph, micro_batch: int) -> Graph:
    """Scale two graphs of the same model, with different micro-batches, to a third.

    Equal blocks stay one object. The two must come from micro-batches of 2 or more, as operators may leave out work at 1.
    """
    share = (micro_batch - small.micro_batch) / (large.micro_batch - small.micro_batch)

    @cache
    def block(index: int) -> Block:
        return cast("Block", _between(small.blocks[index], large.blocks[index], share))

    first = {id(one): index for index, one in reversed(list(enumerate(small.blocks)))}
    return replace(
        small,
        micro_batch=micro_batch,
        before=_between(small.before, large.before, share),
        blocks=tuple(block(first[id(one)]) for one in small.blocks),
        after=_between(small.after, large.after, share),
    )


def _between(small: Any, large: Any, share: float) -> Any:
    """``small + share (large − small)`` of every number within; what is not a number must be equal."""
    if small is None or isinstance(small, (bool, str)):
        return small
    if isinstance(small, int):
        return round(small + share * (large - small))
    if isinstance(small, float):
        return small if small == large else small + share * (large - small)
    if isinstance(small, tuple):
        return tuple(_between(one, other, share) for one, other in zip(small, large, strict=True))
    if is_dataclass(small) and not isinstance(small, type):
        values = {one.name: _between(getattr(small, one.name), getattr(large, one.name), share) for one in fields(small)}
        return type(small)(**values)
    return small
