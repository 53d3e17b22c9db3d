"""The graph of a network in an ONNX file, in the words of torch's operators; torch is not needed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph, join
from epochcast.analyzer.backends.occupancy.graph.graph_builder import SAMPLES, GraphBuilder
from epochcast.analyzer.backends.occupancy.graph.hyper_parameters import hyper_parameters, onnx_settings
from epochcast.analyzer.backends.occupancy.graph.operator_work import RECURRENT
from epochcast.analyzer.backends.occupancy.graph.vocabulary import word_of_onnx
from epochcast.analyzer.backends.occupancy.networks.known_networks import SIZES
from epochcast.analyzer.backends.reader.onnx_graph import OnnxGraph, OnnxOperator
from epochcast.analyzer.backends.reader.onnx_model import load_onnx
from epochcast.analyzer.backends.reader.onnx_values import FLOATS, SHAPED
from epochcast.analyzer.errors import InputError

_ROLES = {
    "image_size": ("height", "width", "image", "pixel"),
    "channels": ("channel",),
    "sequence": ("seq", "length", "token", "step", "time", "position"),
    "hidden": ("hidden", "feature", "embed"),
    "batch": ("batch",),
}
"""Parts of the names that exporters and users give to open axes."""

Axes = dict[str, set[int]]
"""Sides that the axes of each role have: the sizes of a configuration, and ``batch``."""


def graph_of_onnx(path: Path | str, sizes: NetworkConfiguration) -> ComputationGraph:
    """Read the graph of a file, or of several as the towers of one network.

    Its words, hyper-parameters and sizes are those that :func:`.from_module.graph_of_module` gives for the network that was
    exported, but for what an export changes: scaled dot-product attention becomes matrix products and a softmax, what
    normalises after a convolution may be folded into it, dropout is left out, masks become constants, and recurrent layers
    become one operator each. Views and transpositions are edges, as in torch.

    Args:
        path: of the file; files of several towers are separated by commas.
        sizes: the batch, and what the file leaves open of the others.

    Raises:
        InputError: the onnx library is missing, the file is none, damaged, or has control flow; an open axis is not given; or
            the size of a tensor is not known.
    """
    text = str(path)
    towers = text.split(",") if "," in text and not Path(text).is_file() else [text]
    seen: Axes = {}
    graphs = []
    for tower in towers:
        builder = _read(tower.strip(), sizes, seen)
        if not builder.linear:
            builder = _read(tower.strip(), sizes, seen, samples=sizes.batch)
        graphs.append(builder.graph(Path(tower).name).at_batch(sizes.batch))
    _check_sizes(text, seen, sizes)
    return graphs[0] if len(graphs) == 1 else join(",".join(graph.name for graph in graphs), tuple(graphs))


def _read(path: str, sizes: NetworkConfiguration, seen: Axes, samples: int = SAMPLES) -> GraphBuilder:
    """What was read of one file, the sides of whose axes are added to ``seen``."""
    model, weights = load_onnx(path)
    axes, is_open = _set_axes(path, model.graph, {weight.name for weight in weights}, sizes, samples)
    for role, sides in axes.items():
        seen[role] = seen.get(role, set()) | sides
    builder = GraphBuilder(min(axes.get("batch", {1})), every_reached=not is_open or samples != SAMPLES)
    for operator in OnnxGraph(path, model, weights).operators():
        _add(operator, builder)
    return builder


def _add(operator: OnnxOperator, builder: GraphBuilder) -> None:
    """Make an operator a node of the graph."""
    word, tensors, shapes = _word(operator), operator.tensors, [shape or () for shape in operator.shapes]
    answers = [0 if shape is None else math.prod(shape) for shape in operator.shapes]
    if word in RECURRENT:  # as torch answers: all steps, whichever output the file uses
        (steps, samples, _), (directions, *_) = tensors[0].shape, tensors[1].shape
        shapes = [(steps, samples, operator.attributes["hidden_size"] * directions)]
        answers = [math.prod(shapes[0])]
    inputs = list(zip(operator.call.inputs, operator.inputs, strict=True))
    if word == "batch_norm":  # nothing is learnt of its moments
        inputs, answers = inputs[:3], answers[:1]
    read = [value for value in dict(inputs).values() if value is not None and not value.is_setting]
    hyper = hyper_parameters(word, tensors, shapes[0], onnx_settings(operator.attributes, shapes[0]))
    builder.read(word, operator.call.name, hyper, read, answers, operator.kinds[0] in FLOATS)


def _word(operator: OnnxOperator) -> str:
    kind = operator.call.operator
    if kind in SHAPED or kind == "Split":
        return "copy"  # no view shows it so
    word = word_of_onnx(kind)
    multiplied = [value for value in operator.inputs[:2] if value is not None]
    if word in ("linear", "matmul") and kind != "Einsum":  # by what is multiplied, however it is called
        return "linear" if any(value.weight for value in multiplied) else "matmul"
    if kind == "Gather" and multiplied[0].weight and len(multiplied[0].shape) > 1:
        return "embedding"
    return word


def _set_axes(path: str, graph: Any, weights: Collection[str], sizes: NetworkConfiguration, samples: int) -> tuple[Axes, bool]:
    """Set the open axes of a graph's inputs; all axes by their roles, and whether the file left the batch open.

    The batch is the axis that says so by its name, else the first. Other axes are known by their names, else by where they are:
    images have four axes, tokens are two axes of whole numbers, steps of a recurrent network three axes.

    Args:
        path: for messages.
        graph: GraphProto, which is changed.
        weights: names of the inputs that are weights.
        sizes: what open axes become.
        samples: what an open batch becomes.

    Raises:
        InputError: an open axis is not given or unknown, or there is no input.
    """
    tensors = {value.name: value.type.tensor_type for value in graph.input if value.name not in weights}
    if not any(tensor.shape.dim for tensor in tensors.values()):
        raise InputError(f"{path!r} takes no tensor; give the file of a network")
    seen: Axes = {}
    is_open = False
    for name, tensor in tensors.items():
        roles = _roles(list(tensor.shape.dim), tensor.elem_type in FLOATS)
        for place, (axis, role) in enumerate(zip(tensor.shape.dim, roles, strict=True)):
            if not axis.HasField("dim_value") or axis.dim_value < 1:
                is_open |= role == "batch"
                axis.dim_value = samples if role == "batch" else _size_of_open_axis(path, name, place, axis, role, sizes)
            seen.setdefault(role, set()).add(int(axis.dim_value))
    return seen, is_open


def _check_sizes(path: str, seen: Mapping[str, Collection[int]], sizes: NetworkConfiguration) -> None:
    """Check that every size that is given is one that the inputs have.

    Raises:
        InputError: no axis has this role, or the file has fixed it at another size.
    """
    for role in SIZES:
        size, called = int(getattr(sizes, role)), role.replace("_", " ")
        if size and role not in seen:
            raise InputError(f"no axis of the inputs of {path!r} is its {called}, but {called} {size} was given; leave it out")
        if size and size not in seen[role]:
            exported = " or ".join(map(str, sorted(seen[role])))
            raise InputError(
                f"{path!r} is exported for {called} {exported}, not {size}; give that, or export it with this axis open"
            )


def _roles(axes: list[Any], floating: bool) -> list[str]:
    """What each axis is; empty where it is not known."""
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


def _size_of_open_axis(path: str, name: str, place: int, axis: Any, role: str, sizes: NetworkConfiguration) -> int:
    size = int(getattr(sizes, role, 0)) if role else 0
    if size:
        return size
    called = f" ({axis.dim_param})" if axis.dim_param else ""
    remedy = f"give the {role.replace('_', ' ')}" if role else "export it with this axis fixed"
    raise InputError(f"{path!r} leaves axis {place}{called} of its input {name!r} open; {remedy}")
