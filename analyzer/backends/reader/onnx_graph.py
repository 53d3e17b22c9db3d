"""The nodes of an ONNX file as the operators that torch would run, with the sizes of what goes between them; without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epochcast.analyzer.backends.reader.onnx_fusions import OnnxCall, calls_of
from epochcast.analyzer.backends.reader.onnx_values import MOST_KNOWN, Value, laid_out, views
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import one_line

_CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
_LIKE_THEIR_INPUT = {
    *("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    *("SimplifiedLayerNormalization", "RotaryEmbedding", "MultiHeadAttention", "GroupQueryAttention"),
}
"""Operators of ONNX Runtime's own domain whose first answer has the size of their first input."""

_OF_SIZES = {"Shape", "Size"}


@dataclass(frozen=True)
class OnnxOperator:
    """A node, or several that torch fuses, for which a kernel is launched.

    Args:
        call: of the operator in the file.
        attributes: of its node, by name.
        inputs: None for those that are left out.
        kinds: element types of its outputs, as TensorProto numbers them.
        shapes: of its outputs; None where the size is unknown.
        number: in the order of the file; its outputs have it as ``writer``.
    """

    call: OnnxCall
    attributes: Mapping[str, Any]
    inputs: Sequence[Value | None]
    kinds: Sequence[int]
    shapes: Sequence[tuple[int, ...] | None]
    number: int

    @property
    def tensors(self) -> list[Value]:
        """Inputs that are tensors for torch too, rather than numbers, axes and sizes."""
        return [value for value in self.inputs if value is not None and not value.is_setting]

    @property
    def of_the_input(self) -> bool:
        """Whether its outputs depend on the network's input."""
        return any(value.of_the_input for value in self.tensors)


class OnnxGraph:
    """A graph whose operators are read in their order.

    Args:
        path: for messages.
        model: ModelProto whose inputs have sizes (:func:`.onnx_model.load_onnx`).
        weights: TensorProtos, as they were in the file.
    """

    def __init__(self, path: str, model: Any, weights: Sequence[Any]) -> None:
        import onnx

        self._onnx, self._path, self._graph = onnx, path, model.graph
        self._imports = list(model.opset_import)
        self._opsets = {opset.domain: opset.version for opset in model.opset_import}
        self._values: dict[str, Value] = {}
        self._unsized: dict[str, str] = {}
        for entry in self._graph.input:
            tensor = entry.type.tensor_type
            layout = laid_out([int(side.dim_value) for side in tensor.shape.dim])
            self._values[entry.name] = Value(layout, tensor.elem_type, written=layout, of_the_input=True)
        self._weights = {weight.name for weight in weights}
        for weight in weights:
            self._hold(weight.name, weight)

    def operators(self) -> Iterator[OnnxOperator]:
        """Operators that launch kernels: neither views nor what follows from the weights alone.

        Raises:
            InputError: there is control flow, or the size of a tensor that is read is unknown.
        """
        number = 0
        for call in calls_of(self._graph, self._weights):
            if call.node.op_type in _CONTROL_FLOW:
                raise InputError(
                    f"{self._path!r} has control flow (the operator {call.node.op_type}), which an operator graph cannot hold; "
                    "export it for fixed sizes, without branches and loops"
                )
            self._refuse_unsized(call)
            operator = self._operator(call, number)
            if operator is not None:
                yield operator
                number += 1

    def _operator(self, call: OnnxCall, number: int) -> OnnxOperator | None:
        """Keep the outputs of a call; None where it launches no kernel."""
        inputs = [self._values.get(name) if name else None for name in call.inputs]
        attributes = {entry.name: self._onnx.helper.get_attribute_value(entry) for entry in call.node.attribute}
        present = [value for value in inputs if value is not None]
        if call.operator == "Constant" and "value" in attributes:
            self._hold(call.outputs[0], attributes["value"])
            return None
        if call.operator in _OF_SIZES and present[0].layout is not None:
            sides = np.array(present[0].layout.shape, dtype=np.int64)
            sliced = sides[attributes.get("start", 0) : attributes.get("end", len(sides))]
            self._know(call.outputs[0], sliced if call.operator == "Shape" else np.array(np.prod(sides)))
            return None
        kinds, shapes = self._infer(call, inputs)
        if present and all(value.known is not None for value in present) and self._evaluate(call, present, shapes):
            return None
        layouts = views(call.operator, attributes, inputs, shapes)
        if layouts is not None:
            for name, layout in zip(call.outputs, layouts, strict=False):
                self._values[name] = replace(present[0], layout=layout, known=None)
            return None
        operator = OnnxOperator(call, attributes, inputs, kinds, shapes, number)
        computed_when_loaded = operator.tensors and all(value.weight for value in operator.tensors)
        for name, kind, shape in zip(call.outputs, kinds, shapes, strict=False):
            if computed_when_loaded:
                layout = laid_out(shape or ())
                self._values[name] = Value(layout, kind, weight=name, written=layout)
                continue
            if shape is None:
                self._unsized[name] = call.name
            laid = None if shape is None else laid_out(shape)
            self._values[name] = Value(laid, kind, writer=number, written=laid, of_the_input=operator.of_the_input)
        return None if computed_when_loaded else operator

    def _hold(self, name: str, tensor: Any) -> None:
        """Take a weight or constant of the file; its values if they are few."""
        small = math.prod(tensor.dims) <= MOST_KNOWN and tensor.data_location != self._onnx.TensorProto.EXTERNAL
        known = self._onnx.numpy_helper.to_array(tensor) if small else None
        layout = laid_out(tensor.dims)
        self._values[name] = Value(layout, tensor.data_type, known, weight=name, written=layout)

    def _know(self, name: str, known: Any, weight: str = "") -> None:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(known.dtype)
        layout = laid_out(known.shape)
        self._values[name] = Value(layout, kind, known, weight=weight, written=layout)

    def _infer(self, call: OnnxCall, inputs: Sequence[Value | None]) -> tuple[list[int], list[tuple[int, ...] | None]]:
        """Types and shapes of a call's outputs; None for a shape that is unknown."""
        first = next((value for value in inputs if value is not None), None)
        if call.operator != call.node.op_type or (call.operator in _LIKE_THEIR_INPUT and call.node.domain):
            assert first is not None and first.layout is not None
            return [first.kind] * len(call.outputs), [first.layout.shape] + [None] * (len(call.outputs) - 1)
        node, onnx = call.node, self._onnx
        present = {name: self._values[name] for name in node.input if name}
        types = {
            name: onnx.helper.make_tensor_type_proto(value.kind, None if value.layout is None else value.layout.shape)
            for name, value in present.items()
        }
        known = {name: onnx.numpy_helper.from_array(value.known) for name, value in present.items() if value.known is not None}
        kind = first.kind if first is not None else onnx.TensorProto.FLOAT
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:  # of a runtime's own
            return [kind] * len(node.output), [None] * len(node.output)
        try:
            inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, known, opset_imports=self._imports)
        except Exception as error:  # onnx's own
            raise InputError(
                f"{self._path!r} cannot be followed at its operator {node.op_type} {node.name!r}: {one_line(error)[:200]}; "
                "give other sizes, or export it again"
            ) from error
        kinds, shapes = [], []
        for name in node.output:
            tensor = inferred[name].tensor_type if name in inferred else onnx.TypeProto.Tensor()
            sized = tensor.HasField("shape") and all(side.HasField("dim_value") for side in tensor.shape.dim)
            kinds.append(tensor.elem_type or kind)
            shapes.append(tuple(int(side.dim_value) for side in tensor.shape.dim) if sized else None)
        return kinds, shapes

    def _evaluate(self, call: OnnxCall, present: Sequence[Value], shapes: Sequence[Any]) -> bool:
        """Compute few values that follow from the file alone and decide shapes; False where there are many, or onnx cannot."""
        if any(shape is None or math.prod(shape) > MOST_KNOWN for shape in shapes) or call.operator != call.node.op_type:
            return False
        from onnx.reference import ReferenceEvaluator

        names = list(dict.fromkeys(name for name in call.node.input if name))
        function = self._onnx.helper.make_function(
            "epochcast", "one", names, list(call.node.output), [call.node], opset_imports=self._imports
        )
        known = {name: self._values[name].known for name in names}
        try:
            outputs: Any = ReferenceEvaluator(function).run(None, known, {})
        except Exception:  # what onnx's own evaluator does not have
            return False
        weight = next((value.weight for value in present if value.weight), "")
        for name, output in zip(call.outputs, outputs, strict=True):
            self._know(name, np.asarray(output), weight)
        return True

    def _refuse_unsized(self, call: OnnxCall) -> None:
        for name in call.inputs:
            if name in self._unsized:
                raise InputError(
                    f"the output size of the operator {self._unsized[name]} of {self._path!r} is unknown; export the "
                    "network without it"
                )
