"""The graph of a torch module, by torch.export on the meta device: no memory, no computing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from ....errors import InputError
from ...untraceable import why_untraceable
from .aten_operators import hyper_parameters
from .computation_graph import HYPER_PARAMETERS, ComputationGraph
from .operator_work import RECURRENT, flops, temporary
from .vocabulary import UNKNOWN, word_of_aten


def graph_of_module(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Export a module in evaluation mode and read its graph.

    Args:
        module: on the meta device; it is left as it was.
        inputs: what it is called with, on the meta device.
        name: for the graph and for messages.
        batch: samples in ``inputs``.

    Raises:
        InputError: it does not export (shapes or branches that depend on values), or nothing in it computes.
    """
    modes = [(one, one.training) for one in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            program = torch.export.export(module, inputs, strict=False)
    except Exception as error:  # a user's module may raise anything
        raise InputError(why_untraceable(name, error)) from error
    finally:
        for one, training in modes:
            one.training = training
    reading = _Reading(set(program.graph_signature.user_inputs))
    for node in program.graph.nodes:
        reading.take(node)
    return reading.graph(name, batch)


_IDLE_IN_EVALUATION = {"dropout", "dropout_", "feature_dropout", "alpha_dropout"}
"""What answers its input as it is, though the export gives the answer memory of its own."""


@dataclass
class _Reading:
    """What was read of an exported graph so far: operators become nodes, views the way to them."""

    inputs: set[Any]
    words: list[str] = field(default_factory=list)
    hyper: list[Mapping[str, float]] = field(default_factory=list)
    sizes: list[tuple[float, ...]] = field(default_factory=list)
    depends: list[bool] = field(default_factory=list)
    floating: list[bool] = field(default_factory=list)
    edges: dict[tuple[int, int], tuple[bool, float]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    written_by: dict[fx.Node, tuple[int, bool]] = field(default_factory=dict)
    """The operator that wrote a value's memory, and whether views lie between."""
    of_the_input: set[fx.Node] = field(default_factory=set)

    def take(self, node: fx.Node) -> None:
        """Read the next node in the order of execution."""
        if node.name in self.inputs or any(one in self.of_the_input for one in node.all_input_nodes):
            self.of_the_input.add(node)
        if node.op != "call_function" or not _answers(node):
            return
        seen = next((one for one in node.all_input_nodes if one in self.written_by), None)
        if _is_view(node):
            if seen is not None:
                operator, viewed = self.written_by[seen]
                self.written_by[node] = operator, viewed or _moves(node, seen)
            return
        self._operator(node)

    def _operator(self, node: fx.Node) -> None:
        name = _name(node)
        word = word_of_aten(name)
        if word == UNKNOWN:
            self.unknown[name] += 1
        answers = _answers(node)
        given = [one for one in node.all_input_nodes if not self._is_weight(one)]
        weights = [one for one in node.all_input_nodes if self._is_weight(one)]
        hyper = hyper_parameters(word, _arguments(node), answers[0])
        read, written = _elements(given), float(answers[0].numel() if word in RECURRENT else sum(map(Tensor.numel, answers)))
        work = temporary(word, hyper, read, written), _elements(weights), flops(word, hyper, read, written)
        here = len(self.words)
        self.words.append(word)
        self.hyper.append(hyper)
        self.sizes.append((read, written, *work))
        self.depends.append(node in self.of_the_input)
        self.floating.append(answers[0].dtype.is_floating_point)
        for one in node.all_input_nodes:
            if one in self.written_by:
                operator, viewed = self.written_by[one]
                self.edges[operator, here] = viewed, _elements([one])
        self.written_by[node] = here, False

    def _is_weight(self, node: fx.Node) -> bool:
        """Parameters, buffers and constants, or views of them."""
        while node.op == "call_function" and _is_view(node) and node not in self.of_the_input:
            node = node.all_input_nodes[0]
        return node.op == "get_attr" or (node.op == "placeholder" and node.name not in self.inputs)

    def graph(self, name: str, batch: int) -> ComputationGraph:
        """What was read."""
        if not self.words:
            raise InputError(f"{name} has no operator that computes something; give a network")
        return ComputationGraph(
            name=name,
            batch=batch,
            words=tuple(self.words),
            hyper_parameters=np.array([[one.get(key, 0.0) for key in HYPER_PARAMETERS] for one in self.hyper]),
            sizes=np.array(self.sizes),
            depends=np.array(self.depends),
            floating=np.array(self.floating),
            edges=np.array(list(self.edges), dtype=np.int64).reshape(-1, 2).T,
            edge_types=np.array([viewed for viewed, _ in self.edges.values()], dtype=np.int64),
            edge_elements=np.array([elements for _, elements in self.edges.values()], dtype=np.float64),
            unknown=dict(self.unknown),
        )


def _name(node: fx.Node) -> str:
    """``conv2d`` of ``aten::conv2d.default``; of an operator that is not torch's own with its library before it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__name__", str(node.target))
    return str(schema.name).removeprefix("aten::")


def _answers(node: fx.Node) -> list[Tensor]:
    """The tensors that a node answers, without values."""
    return [leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, Tensor)]


def _elements(nodes: Iterable[fx.Node]) -> float:
    return float(sum(tensor.numel() for node in nodes for tensor in _answers(node)))


def _arguments(node: fx.Node) -> dict[str, Any]:
    """By the names in the operator's schema, tensors in the place of nodes."""
    schema = getattr(node.target, "_schema", None)
    names = [one.name for one in schema.arguments] if schema is not None else []
    values = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta.get("val"))
    return dict(zip(names, values[0], strict=False)) | dict(values[1])


def _is_view(node: fx.Node) -> bool:
    """Whether it answers memory that it was given, as it is: no kernel runs."""
    schema = getattr(node.target, "_schema", None)
    if _name(node) in _IDLE_IN_EVALUATION:
        return True
    if schema is not None and schema.is_mutable:
        return False
    answers = _answers(node)
    given = {_memory(tensor) for one in node.all_input_nodes for tensor in _answers(one)}
    return bool(given) and all(_memory(tensor) in given for tensor in answers)


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _moves(node: fx.Node, given: fx.Node) -> bool:
    """Whether a view shows its memory in another order or another part of it."""
    answer, source = _answers(node)[0], _answers(given)[0]
    return answer.numel() != source.numel() or (source.is_contiguous() and not answer.is_contiguous())
