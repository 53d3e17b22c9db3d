"""A network of images in an ONNX file as a module that calls torch, so that it is read like any other; needs onnx."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.network.factory import one_line
from epochcast.analyzer.backends.network.onnx_operators import DTYPES, FUSED, OPERATORS, READ_BY_VALUE
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

_LARGEST_KEPT = 1024
"""Elements of a weight up to which its values may decide shapes."""

_MOST_MADE = 64
"""Elements of a tensor up to which its values are followed, where the file makes it of its size."""

_MADE_OF_SIZES = {"ConstantOfShape", "Expand", "Tile"}

_STATISTICS = {"BatchNormalization": slice(3, 5)}
"""Inputs that are not trained."""


def read_onnx(path: str, image_size: int, batch: int = 1) -> tuple[nn.Module, tuple[Tensor], int]:
    """The network of images in a file; what it is called with; and how many images that is.

    Weights have no memory and their values are not read; weights that are kept in other files are not needed.

    Args:
        path: of the file.
        image_size: side of the images, pixels, where the file leaves it open; 0 is not given.
        batch: images, where the file leaves their number open.

    Raises:
        InputError: the onnx library is missing; the file is none, not whole, or has control flow or an operator that is not
            known; it does not take images, or they have another size.
    """
    model = _load(path)
    network = _Network(path, model)
    inputs = [entry for entry in model.graph.input if entry.name not in network.held]
    axes = list(inputs[0].type.tensor_type.shape.dim) if len(inputs) == 1 else []
    dtype = DTYPES[inputs[0].type.tensor_type.elem_type] if axes else None
    if len(axes) != 4 or dtype is None or not dtype.is_floating_point:
        raise InputError(
            f"{path!r} does not take images (batch, channels, height, width), which all networks in ONNX files must here; "
            "give others as package.module:factory"
        )
    shape = [axis.dim_value or usual for axis, usual in zip(axes, (batch, 3, image_size, image_size), strict=True)]
    if not all(shape):
        raise InputError(f"{path!r} leaves the size of its images open; give the image size")
    if image_size and image_size not in shape[2:]:
        exported = " x ".join(map(str, shape[2:]))
        raise InputError(
            f"{path!r} is exported for images of {exported}, not {image_size}; give that, or export it with these axes open"
        )
    return network, (torch.empty(shape, dtype=dtype, device="meta"),), shape[0]


def _load(path: str) -> Any:
    """The model with its local functions inlined; values in other files are not read."""
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise InputError(f"reading {path!r} needs the onnx library; {how_to_install('onnx')}") from error
    if not Path(path).is_file():
        raise InputError(f"no such file: {path!r}; give the path of an ONNX file")
    try:
        model = onnx.load(path, load_external_data=False)
        if not model.graph.node:
            raise ValueError("it has no operator")
        return onnx.inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:  # of protobuf, of the inliner or of the operating system
        raise InputError(f"{path!r} is no ONNX file that can be read: {one_line(error)}; export the network again") from error


@dataclass(frozen=True)
class _Call:
    """An operator as torch runs it: its type in :mod:`.onnx_operators`, and its node, of fused nodes the last."""

    operator: str
    node: Any
    inputs: tuple[str, ...]


class _Network(nn.Module):
    """Runs the nodes of a graph: with torch where they work on tensors, with onnx's own evaluator on values that are known."""

    def __init__(self, path: str, model: Any) -> None:
        super().__init__()
        import onnx

        self.onnx, self.path, self.graph, self.opsets = onnx, path, model.graph, list(model.opset_import)
        self.known: dict[str, Any] = {}
        self.held: dict[str, str] = {}  # names of parameters and buffers, which may have no dots, by those in the file
        kept = {name for node in self.graph.node for name in node.input[_STATISTICS.get(node.op_type, slice(0))]}
        copies = {node.input[0]: node.output[0] for node in self.graph.node if node.op_type == "Identity"}
        for weight in self.graph.initializer:
            if weight.data_type in DTYPES and DTYPES[weight.data_type].is_floating_point and weight.dims:
                self._hold(weight.name, weight, trained=weight.name not in kept)
                if weight.name in copies:  # exports keep equal weights once
                    self._hold(copies[weight.name], weight, trained=True)
            elif weight.data_location != onnx.TensorProto.EXTERNAL and math.prod(weight.dims) <= _LARGEST_KEPT:
                self.known[weight.name] = onnx.numpy_helper.to_array(weight)
            else:
                self._hold(weight.name, weight, trained=False)
        self.calls = list(_fused(self.graph, {weight.name for weight in self.graph.initializer}))

    def _hold(self, name: str, weight: Any, trained: bool) -> None:
        tensor = torch.empty(tuple(weight.dims), dtype=DTYPES[weight.data_type], device="meta")
        self.held[name] = f"weight_{len(self.held)}"
        if trained:
            self.register_parameter(self.held[name], nn.Parameter(tensor))
        else:
            self.register_buffer(self.held[name], tensor)

    def forward(self, *inputs: Tensor) -> list[Any]:
        """The outputs of the graph."""
        names = [entry.name for entry in self.graph.input if entry.name not in self.held]
        values: dict[str, Any] = dict(zip(names, inputs, strict=True)) | self.known
        values |= {name: getattr(self, held) for name, held in self.held.items()}
        for call in self.calls:
            missing = [name for name in call.node.output if name and name not in values]
            if missing:
                answers = self._run(call, [values.get(name) for name in call.inputs])
                values |= dict(zip(call.node.output, answers, strict=False))
        return [values.get(entry.name) for entry in self.graph.output]

    def _run(self, call: _Call, inputs: list[Any]) -> Sequence[Any]:
        kind, node = call.operator, call.node
        if kind in ("If", "Loop", "Scan", "SequenceMap"):
            raise InputError(
                f"{self.path!r} has control flow (the operator {kind}), which an operator graph cannot hold; "
                "export it for fixed sizes, without branches and loops"
            )
        if kind == "Shape":
            start, end = (next((entry.i for entry in node.attribute if entry.name == name), None) for name in ("start", "end"))
            return [np.array(inputs[0].shape[start:end], dtype=np.int64)]
        if not any(isinstance(value, Tensor) for value in inputs):
            made = math.prod(inputs[-1].tolist()) if kind in _MADE_OF_SIZES else 0
            if made <= _MOST_MADE and (evaluated := self._evaluate(call, inputs)) is not None:
                return evaluated
        if kind not in OPERATORS:
            called = f"{node.domain}:{kind}" if node.domain else kind
            raise InputError(f"{self.path!r} holds the operator {called}, which is not known; export the network without it")
        first = len(inputs) if kind not in READ_BY_VALUE else int(isinstance(inputs[0], Tensor) or len(inputs) > 1)
        given = [*map(_as_tensor, inputs[:first]), *inputs[first:]]
        attributes = {entry.name: self.onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        try:
            answer = OPERATORS[kind](*given, **attributes)
        except Exception as error:  # torch's own, or of a value that a shape depends on
            raise InputError(
                f"{self.path!r} cannot be followed at its operator {kind} {node.name!r}: {one_line(error)}; "
                "give other sizes, or export it again"
            ) from error
        return answer if isinstance(answer, (tuple, list)) else [answer]

    def _evaluate(self, call: _Call, inputs: Sequence[Any]) -> list[Any] | None:
        """What a node of known values answers; None where onnx's evaluator does not have it."""
        from onnx.reference import ReferenceEvaluator

        names = list(dict.fromkeys(name for name in call.node.input if name))
        function = self.onnx.helper.make_function(
            "epochcast", "one", names, list(call.node.output), [call.node], opset_imports=self.opsets
        )
        try:
            outputs: Any = ReferenceEvaluator(function).run(None, dict(zip(call.inputs, inputs, strict=True)), {})
        except Exception:  # onnx's own
            return None
        return [np.asarray(output) for output in outputs]


def _as_tensor(value: Any) -> Any:
    """A value that is known as torch would be given it: a single one as a number."""
    if not isinstance(value, np.ndarray):
        return value
    if value.size == 1:
        return value.item()
    return torch.from_numpy(np.array(value, dtype=np.float32 if value.dtype.kind not in "biu" else value.dtype))


def _fused(graph: Any, weights: set[str]) -> Iterator[_Call]:
    """The nodes of a graph in their order; several that torch runs as one are a call in the place of the last of them."""
    maker = {name: node for node in graph.node for name in node.output}
    uses = Counter(name for node in graph.node for name in node.input) + Counter(entry.name for entry in graph.output)
    constant = set(weights)
    for node in graph.node:
        if node.op_type == "Constant" or (node.input and constant.issuperset(node.input)):
            constant.update(node.output)

    def match(pattern: Any, name: str, bound: dict[str, str], within: list[str]) -> bool:
        if isinstance(pattern, str):  # capital letters are constants
            return (not pattern.isupper() or name in constant) and bound.setdefault(pattern, name) == name
        node = maker.get(name)
        if node is None or node.op_type not in pattern[0] or (within and uses[name] != 1):
            return False
        orders = [node.input] if "MatMul" in pattern[0] else permutations(node.input)
        for order in orders:
            tried, inner = dict(bound), [*within, name]
            parts = zip(pattern[1:], order, strict=False)
            if len(order) == len(pattern) - 1 and all(match(part, one, tried, inner) for part, one in parts):
                bound.update(tried)
                within[:] = inner
                return True
        return False

    fused: dict[str, _Call] = {}
    absorbed: set[str] = set()
    for node in graph.node:
        for kind, pattern in FUSED:
            bound, within = dict[str, str](), list[str]()
            if match(pattern, node.output[0], bound, within) and absorbed.isdisjoint(within):
                fused[node.output[0]] = _Call(
                    kind, node, tuple(bound[name] for name in ("x", "WEIGHT", "BIAS") if name in bound)
                )
                absorbed.update(within)
                break
    for node in graph.node:
        if node.output and node.output[0] in fused:
            yield fused[node.output[0]]
        elif not node.output or node.output[0] not in absorbed:
            yield _Call(node.op_type, node, tuple(node.input))
