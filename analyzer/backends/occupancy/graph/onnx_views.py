"""ONNX operators that torch runs by looking at the same memory in another way: no kernel is launched for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .onnx_values import Layout, Value, reshaped

SHAPED = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}
"""Views if the memory allows it; copies where not, as in torch."""

SAME = {"Identity", "Dropout"}
"""What answers its input."""


def views(
    operator: str, attributes: Mapping[str, Any], given: Sequence[Value | None], shapes: Sequence[Any]
) -> list[Layout] | None:
    """Layouts of an operator's answers if all of them are views of its first input; None where it runs a kernel.

    A transposition is a view in torch, though ONNX's runtimes copy: labels are of what torch runs.

    Args:
        operator: ONNX operator type.
        attributes: by name.
        given: its inputs; None for those that are left out.
        shapes: of its answers; None where they are not known.
    """
    source = given[0] if given else None
    if source is None or source.layout is None:
        return None
    layout = source.layout
    rest = [one.known if one is not None else None for one in given[1:]]
    if operator in SAME:
        return [layout]
    if operator in ("Cast", "CastLike", "DequantizeLinear"):
        other = given[1].kind if operator == "CastLike" and given[1] is not None else attributes.get("to")
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
    elif any(one is None for one in rest):
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
