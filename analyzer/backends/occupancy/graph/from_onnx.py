"""The graph of a network in an ONNX file, in the words of torch's operators; torch is not needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....csv_text import one_line
from ....errors import InputError
from ...onnx_model import load_onnx
from ..configuration import Configuration
from .computation_graph import ComputationGraph, join
from .graph_builder import Delivery, Elements, GraphBuilder
from .onnx_axes import check_sizes, set_axes
from .onnx_fusions import Call, calls_of
from .onnx_operators import hyper_parameters
from .onnx_values import FLOATS, MOST_KNOWN, Value, laid_out
from .onnx_views import SHAPED, views
from .operator_work import RECURRENT
from .vocabulary import UNKNOWN, word_of_onnx

SAMPLES = 1009
"""The batch that an open batch axis is set to: what grows with it are the tensors whose elements this prime divides."""

_CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
_LIKE_THEIR_INPUT = {
    *("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    *("SimplifiedLayerNormalization", "RotaryEmbedding", "MultiHeadAttention", "GroupQueryAttention"),
}
"""Operators of ONNX Runtime's own domain whose first answer has the size of their first input."""

_OF_SIZES = {"Shape", "Size"}


def graph_of_onnx(path: Path | str, sizes: Configuration) -> ComputationGraph:
    """Read the graph of a file, or of several as the towers of one network.

    Its words, hyper-parameters and sizes are those that :func:`.from_module.graph_of_module` gives for the network that was
    exported, but for what an export changes: scaled dot-product attention becomes matrix products and a softmax, what
    normalises after a convolution may be folded into it, masks become constants, and recurrent layers become one operator
    each. Views and transpositions are edges, as in torch.

    Args:
        path: of the file; files of several towers are separated by commas.
        sizes: the batch, and what the file leaves open of the others.

    Raises:
        InputError: the onnx library is missing, the file is none, damaged, or has control flow; an open axis is not given; or
            the size of a tensor cannot be told.
    """
    text = str(path)
    towers = text.split(",") if "," in text and not Path(text).is_file() else [text]
    found: dict[str, set[int]] = {}
    graphs = []
    for tower in towers:
        reading = _read(tower.strip(), sizes, found)
        if not reading.linear:
            reading = _read(tower.strip(), sizes, found, samples=sizes.batch)
        graphs.append(reading.builder.graph(Path(tower).name, reading.batch, reading.weight_elements).at_batch(sizes.batch))
    check_sizes(text, found, sizes)
    return graphs[0] if len(graphs) == 1 else join(",".join(one.name for one in graphs), tuple(graphs))


def _read(path: str, sizes: Configuration, found: dict[str, set[int]], samples: int = SAMPLES) -> _Reading:
    model, weights = load_onnx(path)
    axes, is_open = set_axes(path, model.graph, {one.name for one in weights}, sizes, samples)
    for role, sides in axes.items():
        found.setdefault(role, set()).update(sides)
    batch = min(axes.get("batch", {1}))
    reading = _Reading(path, model, weights, batch, every_reached=not is_open or samples != SAMPLES)
    reading.take_all()
    return reading


class _Reading:
    """Reads the nodes of a model in their order.

    Args:
        path: for messages.
        model: ModelProto whose inputs have sizes.
        weights: TensorProtos, as they were in the file.
        batch: samples of the inputs.
        every_reached: whether all that the input reaches grows with the batch, rather than what ``batch`` divides.

    Attributes:
        builder: what was read.
        linear: whether what grows with the batch does so in proportion.
        weight_elements: of all weights that operators read.
    """

    def __init__(self, path: str, model: Any, weights: Sequence[Any], batch: int, every_reached: bool) -> None:
        import onnx

        self.onnx, self.path, self.graph, self.batch, self.every_reached = onnx, path, model.graph, batch, every_reached
        self.builder = GraphBuilder()
        self.imports = list(model.opset_import)
        self.opsets = {one.domain: one.version for one in model.opset_import}
        self.values: dict[str, Value] = {}
        self.unsized: dict[str, str] = {}
        self.linear = True
        self.read_weights: dict[str, int] = {}
        for one in self.graph.input:
            tensor = one.type.tensor_type
            layout = laid_out([int(side.dim_value) for side in tensor.shape.dim])
            self.values[one.name] = Value(layout, tensor.elem_type, written=layout.size, of_the_input=True)
        self.weights = {one.name for one in weights}
        for one in weights:
            self._hold(one.name, one)

    @property
    def weight_elements(self) -> float:
        return float(sum(self.read_weights.values()))

    def take_all(self) -> None:
        """Read all nodes."""
        for call in calls_of(self.graph, self.weights):
            if call.node.op_type in _CONTROL_FLOW:
                raise InputError(
                    f"{self.path!r} has control flow (the operator {call.node.op_type}), which no graph of operators tells; "
                    "export it for fixed sizes, without branches and loops"
                )
            self._take(call)

    def _take(self, call: Call) -> None:
        given = [self.values.get(name) if name else None for name in call.inputs]
        attributes = {one.name: self.onnx.helper.get_attribute_value(one) for one in call.node.attribute}
        present = [one for one in given if one is not None]
        self._refuse_unsized(call)
        if call.operator == "Constant" and "value" in attributes:
            self._hold(call.outputs[0], attributes["value"])
            return
        if call.operator in _OF_SIZES and present[0].layout is not None:
            shape = np.array(present[0].layout.shape, dtype=np.int64)
            known = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
            self._know(call.outputs[0], known if call.operator == "Shape" else np.array(np.prod(shape)))
            return
        kinds, shapes = self._infer(call, given)
        if present and all(one.known is not None for one in present) and self._evaluate(call, present, kinds, shapes):
            return
        layouts = views(call.operator, attributes, given, shapes)
        if layouts is not None:
            for name, layout in zip(call.outputs, layouts, strict=False):
                self.values[name] = replace(present[0], layout=layout, known=None)
            return
        tensors = [one for one in present if not _is_setting(one)]
        if tensors and all(one.weight for one in tensors):  # runtimes compute these once, when they load the file
            for name, kind, answered in zip(call.outputs, kinds, shapes, strict=False):
                layout = laid_out(answered or ())
                self.values[name] = Value(layout, kind, weight=name, written=layout.size)
            return
        self._operator(call, attributes, given, kinds, shapes)

    def _hold(self, name: str, tensor: Any) -> None:
        """Take a weight or constant of the file; its values if they are few."""
        small = math.prod(tensor.dims) <= MOST_KNOWN and tensor.data_location != self.onnx.TensorProto.EXTERNAL
        known = self.onnx.numpy_helper.to_array(tensor) if small else None
        layout = laid_out(tensor.dims)
        self.values[name] = Value(layout, tensor.data_type, known, weight=name, written=layout.size)

    def _know(self, name: str, known: Any, weight: str = "") -> None:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(known.dtype)
        self.values[name] = Value(laid_out(known.shape), kind, known, weight=weight, written=known.size)

    def _infer(self, call: Call, given: Sequence[Value | None]) -> tuple[list[int], list[tuple[int, ...] | None]]:
        """Types and shapes of what a call answers; None where nothing tells the shape."""
        first = next((one for one in given if one is not None), None)
        if call.operator != call.node.op_type or (call.operator in _LIKE_THEIR_INPUT and call.node.domain):
            assert first is not None and first.layout is not None
            return [first.kind] * len(call.outputs), [first.layout.shape] + [None] * (len(call.outputs) - 1)
        node, onnx = call.node, self.onnx
        present = {name: self.values[name] for name in node.input if name}
        types = {
            name: onnx.helper.make_tensor_type_proto(one.kind, None if one.layout is None else one.layout.shape)
            for name, one in present.items()
        }
        known = {name: onnx.numpy_helper.from_array(one.known) for name, one in present.items() if one.known is not None}
        kind = first.kind if first is not None else onnx.TensorProto.FLOAT
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:  # of a runtime's own
            return [kind] * len(node.output), [None] * len(node.output)
        try:
            found = onnx.shape_inference.infer_node_outputs(schema, node, types, known, opset_imports=self.imports)
        except Exception as error:  # onnx's own
            raise InputError(
                f"{self.path!r} cannot be followed at its operator {node.op_type} {node.name!r}: {one_line(error)[:200]}; "
                "give other sizes, or export it again"
            ) from error
        kinds, shapes = [], []
        for name in node.output:
            tensor = found[name].tensor_type if name in found else onnx.TypeProto.Tensor()
            sized = tensor.HasField("shape") and all(side.HasField("dim_value") for side in tensor.shape.dim)
            kinds.append(tensor.elem_type or kind)
            shapes.append(tuple(int(side.dim_value) for side in tensor.shape.dim) if sized else None)
        return kinds, shapes

    def _evaluate(self, call: Call, present: Sequence[Value], kinds: Sequence[int], shapes: Sequence[Any]) -> bool:
        """Compute what follows from the file alone and decides shapes; False where it is large or cannot be."""
        if any(shape is None or math.prod(shape) > MOST_KNOWN for shape in shapes) or call.operator != call.node.op_type:
            return False
        from onnx.reference import ReferenceEvaluator

        names = list(dict.fromkeys(name for name in call.node.input if name))
        function = self.onnx.helper.make_function(
            "epochcast", "one", names, list(call.node.output), [call.node], opset_imports=self.imports
        )
        known = {name: self.values[name].known for name in names}
        try:
            answers: Any = ReferenceEvaluator(function).run(None, known, {})
        except Exception:  # what onnx's own evaluator does not have
            return False
        weight = next((one.weight for one in present if one.weight), "")
        for name, answer in zip(call.outputs, answers, strict=True):
            self._know(name, np.asarray(answer), weight)
        return True

    def _operator(
        self, call: Call, attributes: Any, given: Sequence[Value | None], kinds: Sequence[int], shapes: Sequence[Any]
    ) -> None:
        tensors = [one for one in given if one is not None and one.layout is not None and not _is_setting(one)]
        named = dict(zip(call.inputs, given, strict=True))
        word = self._word(call, given)
        answer = laid_out(shapes[0] or ())
        if word in RECURRENT:  # as torch answers: all steps, whichever answer the file asks for
            (steps, samples, _), (directions, *_) = tensors[0].shape, tensors[1].shape
            answer = laid_out((steps, samples, attributes["hidden_size"] * directions))
        hyper = hyper_parameters(word, attributes, [one.layout for one in tensors if one.layout is not None], answer)
        read, weights, deliveries = Elements(), 0.0, []
        of_the_input = any(one.of_the_input for one in tensors)
        for one in named.values():
            if one is None or _is_setting(one):
                continue
            if one.weight:
                weights += one.distinct
                self.read_weights[one.weight] = max(one.written, self.read_weights.get(one.weight, 0))
                continue
            elements = self._elements(one.distinct, one.of_the_input)
            read += elements
            if one.writer is not None:
                deliveries.append(Delivery(one.writer, one.moved, elements))
        written = Elements()
        for shape in [answer.shape] if word in RECURRENT else shapes[:1] if word == "batch_norm" else shapes:
            written += self._elements(math.prod(shape) if shape is not None else 0, of_the_input)
        if not self.every_reached and any(value and value % self.batch == 0 for value in hyper.values()):
            self.linear = False
        here = self.builder.add(word, _called(call), hyper, read, written, weights, kinds[0] in FLOATS, deliveries)
        for name, kind, shape in zip(call.outputs, kinds, shapes, strict=False):
            if shape is None:
                self.unsized[name] = _called(call)
            layout = None if shape is None else laid_out(shape)
            size = 0 if layout is None else layout.size
            self.values[name] = Value(layout, kind, writer=here, written=size, of_the_input=of_the_input)

    def _word(self, call: Call, given: Sequence[Value | None]) -> str:
        if call.operator in SHAPED or call.operator == "Split":
            return "copy"  # no view shows it so
        word = word_of_onnx(call.operator)
        multiplied = [one for one in given[:2] if one is not None]
        if word in ("linear", "matmul") and call.operator != "Einsum":  # by what is multiplied, however it is called
            return "linear" if any(one.weight for one in multiplied) else "matmul"
        if call.operator == "Gather" and multiplied[0].weight and len(multiplied[0].shape) > 1:
            return "embedding"
        return word

    def _elements(self, elements: int, of_the_input: bool) -> Elements:
        if self.every_reached:
            return Elements(elements, 0.0 if of_the_input else elements)
        if elements and elements % self.batch**2 == 0:
            self.linear = False
        return Elements(elements, elements if elements % self.batch else 0.0)

    def _refuse_unsized(self, call: Call) -> None:
        for name in call.inputs:
            if name in self.unsized:
                raise InputError(
                    f"nothing tells the size of what the operator {self.unsized[name]} of {self.path!r} answers; export the "
                    "network without it"
                )


def _is_setting(value: Value) -> bool:
    """Whether it is no tensor for torch but a number, or axes and sizes."""
    return value.known is not None and (value.known.size <= 1 or not value.weight or value.kind not in FLOATS)


def _called(call: Call) -> str:
    domain = call.node.domain if call.operator == call.node.op_type else ""
    return f"{domain}:{call.operator}" if domain and word_of_onnx(call.operator) == UNKNOWN else call.operator
