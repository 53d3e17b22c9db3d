"""Values of an ONNX graph: shapes and strides without memory, as torch would lay them out, and the few that decide shapes.

Some operators torch runs by looking at the same memory in another way: no kernel is launched for these views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layout = NDArray[np.bool_]
"""An array of a shape and strides whose elements are never touched: all its views are numpy's."""

FLOATS = frozenset({1, 10, 11, 16})
"""FLOAT, FLOAT16, DOUBLE and BFLOAT16 of TensorProto."""

MOST_KNOWN = 64
"""Elements up to which values are followed: shapes and axes have a few."""

SHAPED = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}
"""Views if the memory allows it; copies where not, as in torch."""

SAME = {"Identity", "Dropout"}
"""Operators whose output is their input."""

_NOTHING = np.empty(1, dtype=np.bool_)
_REFUSES_COPIES = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@dataclass(frozen=True)
class Value:
    """A tensor.

    Args:
        layout: its shape and strides; None where its size is unknown.
        kind: element type, as TensorProto numbers it; 0 where it comes from no file.
        known: its values, where they follow from the file alone and are few.
        weight: name of the weight whose memory it is; empty for all that operators write.
        writer: number of the operator that wrote its memory; None for weights, inputs and constants.
        written: its memory as it was written; None where its size is unknown.
        of_the_input: whether it depends on the network's input.
    """

    layout: Layout | None
    kind: int = 0
    known: NDArray[Any] | None = None
    weight: str = ""
    writer: int | None = None
    written: Layout | None = None
    of_the_input: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Empty also where the size is unknown."""
        return () if self.layout is None else self.layout.shape

    @property
    def size(self) -> int:
        """Elements that it shows, those of a broadcast view as often as it repeats them."""
        return 0 if self.layout is None else self.layout.size

    @property
    def is_setting(self) -> bool:
        """Whether it is no tensor for torch but a number, or axes and sizes."""
        return self.known is not None and (self.known.size <= 1 or not self.weight or self.kind not in FLOATS)

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one behind the other."""
        return self.layout is None or self.layout.flags.c_contiguous

    @property
    def moved(self) -> bool:
        """Whether it shows its memory in another order than it was written, or another part of it."""
        if self.layout is None or self.written is None:
            return False
        return self.layout.size != self.written.size or (self.written.flags.c_contiguous and not self.contiguous)

    @property
    def distinct(self) -> int:
        """Elements that lie in memory, however often a broadcast view repeats them."""
        return distinct(self.layout)


def distinct(layout: Layout | None) -> int:
    """Elements that lie in memory, however often a broadcast view repeats them; 0 where the size is unknown."""
    if layout is None:
        return 0
    return math.prod(side for side, step in zip(layout.shape, layout.strides, strict=True) if step or side == 0)


def laid_out(shape: Sequence[int], steps: Sequence[int] | None = None) -> Layout:
    """A tensor of this shape: without gaps, in the order of its axes, as an operator writes it, or with other ``steps``."""
    if steps is None:
        steps = [math.prod(max(1, side) for side in shape[place:]) for place in range(1, len(shape) + 1)]
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


def views(
    operator: str, attributes: Mapping[str, Any], inputs: Sequence[Value | None], shapes: Sequence[Any]
) -> list[Layout] | None:
    """Layouts of an operator's outputs if all of them are views of its first input; None where it runs a kernel.

    A transposition is a view in torch, though ONNX's runtimes copy: labels are of what torch runs.

    Args:
        operator: ONNX operator type.
        attributes: by name.
        inputs: None for those that are left out.
        shapes: of its outputs; None where they are not known.
    """
    source = inputs[0] if inputs else None
    if source is None or source.layout is None:
        return None
    layout = source.layout
    rest = [value.known if value is not None else None for value in inputs[1:]]
    if operator in SAME:
        return [layout]
    if operator in ("Cast", "CastLike", "DequantizeLinear"):
        other = inputs[1].kind if operator == "CastLike" and inputs[1] is not None else attributes.get("to")
        return [layout] if source.weight or other == source.kind else None
    if operator in SHAPED and shapes[0] is not None:
        view = reshaped(layout, shapes[0])
        return None if view is None else [view]
    if operator == "Transpose":
        return [layout.transpose(attributes.get("perm", range(layout.ndim)[::-1]))]
    if operator == "Expand" and shapes[0] is not None:
        return [np.broadcast_to(layout, shapes[0])]
    if operator == "Gather" and rest[0] is not None and rest[0].ndim == 0:  # torch selects without a copy
        return [layout[(slice(None),) * (attributes.get("axis", 0) % layout.ndim) + (int(rest[0]),)]]
    if operator == "Slice":
        return _slices(layout, attributes, rest)
    if operator == "Split" and all(shape is not None for shape in shapes):
        axis = attributes.get("axis", 0) % layout.ndim
        ends = np.cumsum([0, *(shape[axis] for shape in shapes)])
        return [layout[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(ends)]
    return None


def _slices(layout: Layout, attributes: Mapping[str, Any], rest: Sequence[Any]) -> list[Layout] | None:
    if "starts" in attributes:  # before opset 10
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    elif any(values is None for values in rest):
        return None
    else:
        starts, ends, axes, steps = (*rest, None, None)[:4]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    places = [slice(None)] * layout.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if step < 0 and end < -layout.shape[axis] else int(end)  # back over the first element
        places[int(axis)] = slice(int(start), stop, int(step))
    return [layout[tuple(places)]]
