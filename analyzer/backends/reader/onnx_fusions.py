"""Operators of torch that its exporters write as several nodes: dense layers with a bias, SiLU, GELU, layer norms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OnnxCall:
    """An operator as torch would run it.

    Args:
        operator: ONNX operator type; of fused nodes, the type that they amount to.
        node: its NodeProto; of fused nodes, one of them.
        inputs: names of values, empty where an optional input is left out.
        outputs: names of values, empty where an optional output is left out.
    """

    operator: str
    node: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its type, after its domain where that is not ONNX's own."""
        domain = self.node.domain if self.operator == self.node.op_type else ""
        return f"{domain}:{self.operator}" if domain else self.operator


def calls_of(graph: Any, weights: Collection[str]) -> Iterator[OnnxCall]:
    """The nodes of a GraphProto in their order; nodes that torch fuses are a single call in the place of the last of them.

    Args:
        graph: GraphProto.
        weights: names of its values that are weights.
    """
    patterns = _Patterns(graph, weights)
    fused: dict[int, OnnxCall] = {}
    absorbed: set[int] = set()
    for place, node in enumerate(graph.node):
        match = patterns.ending_with(node)
        if match is None:
            continue
        call, others = match
        places = {patterns.places[other.output[0]] for other in others}
        if not places & absorbed and not places & set(fused):
            fused[place] = call
            absorbed |= places
    for place, node in enumerate(graph.node):
        if place in fused:
            yield fused[place]
        elif place not in absorbed:
            yield OnnxCall(node.op_type, node, tuple(node.input), tuple(node.output))


class _Patterns:
    def __init__(self, graph: Any, weights: Collection[str]) -> None:
        self.places = {name: place for place, node in enumerate(graph.node) for name in node.output}
        self.maker = {name: node for node in graph.node for name in node.output}
        self.constant = set(weights)
        for node in graph.node:  # exports keep equal weights once, and an Identity for each copy
            if node.op_type == "Constant" or (node.input and self.constant.issuperset(node.input)):
                self.constant.update(node.output)
        self.uses: dict[str, int] = defaultdict(int)
        for node in graph.node:
            for name in node.input:
                self.uses[name] += 1
        for output in graph.output:
            self.uses[output.name] += 1

    def ending_with(self, node: Any) -> tuple[OnnxCall, Sequence[Any]] | None:
        """The call that several nodes amount to, this one last, and the other nodes."""
        if node.op_type == "Mul":
            return self._silu(node) or self._gelu(node)
        if node.op_type == "Add":
            return self._dense(node) or self._layer_norm(node)
        return None

    def _made(self, name: str, operator: str, uses: int = 1) -> Any:
        """The node that makes a value, if it is of this type and nothing else reads the value."""
        node = self.maker.get(name)
        return node if node is not None and node.op_type == operator and self.uses[name] == uses else None

    def _of_two(self, node: Any, operator: str) -> tuple[Any, str] | None:
        """The node of this type that makes one of two inputs, and the other input."""
        for name, other in (node.input, tuple(reversed(node.input))):
            made = self._made(name, operator)
            if made is not None:
                return made, other
        return None

    def _with_constant(self, node: Any) -> tuple[str, str] | None:
        """The input that is computed, and the one that is a constant."""
        computed = [name for name in node.input if name not in self.constant]
        constant = [name for name in node.input if name in self.constant]
        return (computed[0], constant[0]) if len(computed) == len(constant) == 1 else None

    def _silu(self, node: Any) -> tuple[OnnxCall, Sequence[Any]] | None:
        match = self._of_two(node, "Sigmoid")
        if match is None or match[0].input[0] != match[1]:
            return None
        sigmoid, x = match
        return OnnxCall("Swish", node, (x,), tuple(node.output)), [sigmoid]

    def _dense(self, node: Any) -> tuple[OnnxCall, Sequence[Any]] | None:
        biased = self._with_constant(node)
        product = self._made(biased[0], "MatMul") if biased is not None else None
        if biased is None or product is None:
            return None
        return OnnxCall("MatMul", product, (*product.input, biased[1]), tuple(node.output)), [product]

    def _gelu(self, node: Any) -> tuple[OnnxCall, Sequence[Any]] | None:
        """0.5 x (1 + erf(x / √2)), its factors in any order."""
        halved = self._with_constant(node)
        if halved is not None:
            outer = self._made(halved[0], "Mul")
            return self._around_erf(outer, [node.output[0], outer]) if outer is not None else None
        return self._around_erf(node, [node.output[0]])

    def _around_erf(self, node: Any, ends: list[Any]) -> tuple[OnnxCall, Sequence[Any]] | None:
        match = self._of_two(node, "Add")
        shifted = self._with_constant(match[0]) if match is not None else None
        erf = self._made(shifted[0], "Erf") if shifted is not None else None
        if match is None or erf is None:
            return None
        scaled = self.maker.get(erf.input[0])
        if scaled is None or scaled.op_type not in ("Div", "Mul") or self.uses[erf.input[0]] != 1:
            return None
        x, other = scaled.input[0], match[1]
        others = [match[0], erf, scaled, *ends[1:]]
        if other != x:
            half = self._made(other, "Mul")
            if half is None or x not in half.input:
                return None
            others.append(half)
        elif len(ends) == 1:
            return None  # nothing halves it
        return OnnxCall("Gelu", node, (x,), (ends[0],)), others

    def _layer_norm(self, node: Any) -> tuple[OnnxCall, Sequence[Any]] | None:
        """(x - mean) / sqrt(mean of its square + ε) · weight + bias, as exported before opset 17."""
        biased = self._with_constant(node)
        scaled = self._made(biased[0], "Mul") if biased is not None else None
        weighted = self._with_constant(scaled) if scaled is not None else None
        divided = self._made(weighted[0], "Div") if weighted is not None else None
        if biased is None or scaled is None or weighted is None or divided is None:
            return None
        centred = self._made(divided.input[0], "Sub", uses=2)
        root = self._made(divided.input[1], "Sqrt")
        padded = self._made(root.input[0], "Add") if root is not None else None
        raised = self._with_constant(padded) if padded is not None else None
        mean = self._made(raised[0], "ReduceMean") if raised is not None else None
        square = self._made(mean.input[0], "Pow") if mean is not None else None
        if centred is None or square is None or square.input[0] != divided.input[0]:
            return None
        first = self._made(centred.input[1], "ReduceMean")
        if first is None or first.input[0] != centred.input[0]:
            return None
        inputs = (centred.input[0], weighted[1], biased[1])
        others = [scaled, divided, root, padded, mean, square, centred, first]
        return OnnxCall("LayerNormalization", first, inputs, tuple(node.output)), others
