"""Values of an ONNX graph: shapes and strides without memory, as torch would lay them out, and the few that decide shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layout = NDArray[np.bool_]
"""An array of a shape and strides whose elements are never touched: all its views are numpy's."""

FLOATS = frozenset({1, 10, 11, 16})
"""FLOAT, FLOAT16, DOUBLE and BFLOAT16 of TensorProto."""

MOST_KNOWN = 64
"""Elements up to which values are followed: shapes and axes have a few."""

_NOTHING = np.empty(1, dtype=np.bool_)
_REFUSES_COPIES = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@dataclass(frozen=True)
class Value:
    """A tensor.

    Args:
        layout: its shape and strides; None where nothing tells its size.
        kind: number of its type in TensorProto.
        known: its values, where they follow from the file alone and are few.
        weight: name of the weight whose memory it is; empty for all that operators write.
        writer: number of the operator that wrote its memory; None for weights, inputs and constants.
        written: elements that were written.
        of_the_input: whether it depends on the network's input.
    """

    layout: Layout | None
    kind: int
    known: NDArray[Any] | None = None
    weight: str = ""
    writer: int | None = None
    written: int = 0
    of_the_input: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Empty also where nothing tells its size."""
        return () if self.layout is None else self.layout.shape

    @property
    def moved(self) -> bool:
        """Whether it shows its memory in another order than it was written, or another part of it."""
        return self.layout is not None and (self.layout.size != self.written or not self.layout.flags.c_contiguous)

    @property
    def distinct(self) -> int:
        """Elements that lie in memory, however often a broadcast view repeats them."""
        if self.layout is None:
            return 0
        return math.prod(side for side, step in zip(self.layout.shape, self.layout.strides, strict=True) if step or side == 0)


def laid_out(shape: Sequence[int]) -> Layout:
    """A tensor of this shape as an operator writes it: without gaps, in the order of its axes."""
    steps = [1] * len(shape)
    for place in range(len(shape) - 2, -1, -1):
        steps[place] = steps[place + 1] * max(1, shape[place + 1])
    return np.lib.stride_tricks.as_strided(_NOTHING, tuple(shape), tuple(steps), writeable=False)


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The same memory in another shape; None where that needs a copy."""
    if layout.flags.c_contiguous:
        return laid_out(shape)
    if _REFUSES_COPIES:
        try:
            return np.reshape(layout, tuple(shape), copy=False)
        except ValueError:
            return None
    view = layout.view()
    try:
        view.shape = tuple(shape)
    except AttributeError:
        return None
    return view
