"""What the axes of an ONNX graph's inputs mean, and setting those that the file leaves open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ....errors import InputError
from ..configuration import Configuration

_ROLES = {
    "image_size": ("height", "width", "image", "pixel"),
    "channels": ("channel",),
    "sequence": ("seq", "length", "token", "step", "time", "position"),
    "hidden": ("hidden", "feature", "embed"),
    "batch": ("batch",),
}
"""Parts of the names that exporters and users give to open axes."""

_FLOATS = {1, 10, 11, 16}


Axes = dict[str, set[int]]
"""Sides that the axes of each role have: the sizes of a configuration, and ``batch``."""


def set_axes(path: str, graph: Any, weights: Collection[str], sizes: Configuration, samples: int) -> tuple[Axes, bool]:
    """Set the open axes of a graph's inputs; all axes by their roles, and whether the file left the batch open.

    The batch is the axis that says so by its name, else the first. Other axes are told by their names, else by where they are:
    images have four axes, tokens are two axes of whole numbers, steps of a recurrent network three axes.

    Args:
        path: for messages.
        graph: GraphProto, which is changed.
        weights: names of the inputs that are weights.
        sizes: what open axes become.
        samples: what an open batch becomes.

    Raises:
        InputError: an open axis is not given or cannot be told, or there is no input.
    """
    inputs = [one for one in graph.input if one.name not in weights]
    if not any(one.type.HasField("tensor_type") and one.type.tensor_type.shape.dim for one in inputs):
        raise InputError(f"{path!r} takes no tensor; give the file of a network")
    found: Axes = {}
    is_open = False
    for one in inputs:
        tensor = one.type.tensor_type
        roles = _roles(list(tensor.shape.dim), tensor.elem_type in _FLOATS)
        for place, (axis, role) in enumerate(zip(tensor.shape.dim, roles, strict=True)):
            if not axis.HasField("dim_value") or axis.dim_value < 1:
                is_open |= role == "batch"
                axis.dim_value = samples if role == "batch" else _given(path, one.name, place, axis, role, sizes)
            found.setdefault(role, set()).add(int(axis.dim_value))
    return found, is_open


def check_sizes(path: str, found: Mapping[str, Collection[int]], sizes: Configuration) -> None:
    """Check that every size that is given is one that the inputs have.

    Raises:
        InputError: no axis has this role, or the file has fixed it at another size.
    """
    for role in ("channels", "image_size", "sequence", "hidden", "layers"):
        given, said = int(getattr(sizes, role)), role.replace("_", " ")
        if not given or given in found.get(role, set()):
            continue
        if role not in found:
            raise InputError(f"no axis of the inputs of {path!r} is its {said}, but {said} {given} is asked for; leave it out")
        there = " or ".join(map(str, sorted(found[role])))
        raise InputError(f"{path!r} is exported for {said} {there}, not {given}; give that, or export it with this axis open")


def _roles(axes: list[Any], floating: bool) -> list[str]:
    """What each axis is; empty where nothing tells."""
    rank = len(axes)
    by_place = {
        (4, True): ("batch", "channels", "image_size", "image_size"),
        (3, True): ("batch", "sequence", "hidden"),
        (2, False): ("batch", "sequence"),
    }.get((rank, floating), ("batch", *[""] * (rank - 1)) if rank else ())
    named = [_named(axis.dim_param.lower()) for axis in axes]
    if "batch" in named:  # another axis is the batch: what comes first is not
        by_place = tuple("sequence" if role == "batch" else role for role in by_place)
    return [name or place for name, place in zip(named, by_place, strict=True)]


def _named(name: str) -> str:
    return next((role for role, parts in _ROLES.items() if any(part in name for part in parts)), "")


def _given(path: str, name: str, place: int, axis: Any, role: str, sizes: Configuration) -> int:
    given = int(getattr(sizes, role, 0)) if role else 0
    if given:
        return given
    called = f" ({axis.dim_param})" if axis.dim_param else ""
    remedy = f"give the {role.replace('_', ' ')}" if role else "export it with this axis fixed"
    raise InputError(f"{path!r} leaves axis {place}{called} of its input {name!r} open; {remedy}")
