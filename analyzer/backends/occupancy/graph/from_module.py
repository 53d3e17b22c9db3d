"""The graph of a torch module, by torch.export on the meta device: no memory, no computing."""

from __future__ import annotations

import copy
import io
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ....errors import InputError
from ...reader.failures import why_untraceable
from ...reader.running_modules import storage_of
from .computation_graph import ComputationGraph
from .graph_builder import Delivery, Elements, GraphBuilder
from .hyper_parameters import Shaped, hyper_parameters
from .operator_work import RECURRENT
from .vocabulary import word_of_aten

SAMPLES = 1009
"""The batch that is exported: tensors that grow with the batch are those whose elements this prime divides.

Nothing has memory, so a large one costs nothing. One sample would do worse: torch then takes copies for views.
"""


def graph_of_module(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Export a module in evaluation mode and read its graph, with the dropout that a training would have.

    What else is of training alone is not in it: paths that are dropped whole, a second head.

    It is exported with SAMPLES samples, which tells what grows with the batch. Where that fails, or anything grows otherwise
    than in proportion (products of samples with each other, a loop over them), it is read by :func:`graph_as_given`.

    Args:
        module: on any device, also without memory; it is left as it was.
        inputs: what it is called with, of any nesting, on any device; tensors whose first axis is ``batch`` grow with it.
        name: for the graph and for messages.
        batch: samples in ``inputs``.

    Raises:
        InputError: it does not export (shapes or branches that depend on values), or nothing in it computes.
    """
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    fake = _without_values(module, fakes)
    many = tree_map_only(Tensor, lambda one: _samples(one, batch, SAMPLES, fakes), inputs)
    if not any(isinstance(one, Tensor) and SAMPLES in one.shape[:1] for one in tree_leaves(many)):
        return graph_as_given(module, inputs, name, batch)
    try:
        reading = _Reading(_export(fake, many), SAMPLES, name)
    except Exception:  # what holds for its own inputs need not hold for others
        return graph_as_given(module, inputs, name, batch)
    operators, linear = len(reading.builder.words), reading.builder.linear
    if linear and operators < SAMPLES:
        return reading.graph().at_batch(batch)
    given = graph_as_given(module, inputs, name, batch)
    of_each_sample = operators - len(given) >= SAMPLES - batch
    return reading.graph().at_batch(batch) if linear and not of_each_sample else given


def graph_as_given(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Export a module with its own inputs, and take all that depends on them to be proportional to the batch.

    The sizes are those of this batch; at others, masks and positions that a network adds to what depends on its input are not.
    Arguments and errors as for :func:`graph_of_module`.
    """
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    fake = _without_values(module, fakes)
    given = tree_map_only(Tensor, lambda one: _samples(one, batch, batch, fakes), inputs)
    try:
        return _Reading(_export(fake, given), batch, name, every_reached=True).graph()
    except InputError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise InputError(why_untraceable(name, error)) from error


def _without_values(module: nn.Module, fakes: FakeTensorMode) -> nn.Module:
    """A copy in evaluation mode whose tensors have no memory; they are on the processor, as those that forward makes."""
    copied: dict[int, Any] = {}
    for part in module.modules():
        for one in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(one, Tensor):
                with fakes:
                    fake = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype)
                copied[id(one)] = nn.Parameter(fake, requires_grad=False) if isinstance(one, nn.Parameter) else fake
    return copy.deepcopy(module, copied).eval()


def _samples(tensor: Tensor, batch: int, wanted: int, fakes: FakeTensorMode) -> Tensor:
    """A tensor without values like this one of ``batch`` samples, of as many as wanted."""
    of_the_batch = tensor.dim() and len(tensor) == batch
    with fakes:
        return torch.empty((wanted, *tensor.shape[1:]) if of_the_batch else tensor.shape, dtype=tensor.dtype)


def _export(module: nn.Module, inputs: tuple[Any, ...]) -> torch.export.ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings(), _no_stack_traces(), _no_logs():
        warnings.simplefilter("ignore")  # on attributes that a forward sets, as nn.LSTM's does
        return torch.export.export(module, inputs, strict=False)


@contextmanager
def _no_logs() -> Iterator[None]:
    """Without the pages that torch writes on what it cannot trace: one sentence says so."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


@contextmanager
def _no_stack_traces() -> Iterator[None]:
    """Without the place in the code of every operator, which takes a quarter of the time of an export."""
    config: Any = getattr(torch.fx, "config", None)
    before = getattr(config, "do_not_emit_stack_traces", None)
    if before is None:  # older versions of torch have no such setting
        yield
        return
    config.do_not_emit_stack_traces = True
    try:
        yield
    finally:
        config.do_not_emit_stack_traces = before


_IDLE = {"lift_fresh_copy", "detach_"}
"""What answers its input as it is, though the export gives the answer memory of its own; dropout of nothing does so too."""

_STATISTICS = {"running_mean", "running_var"}
"""Arguments of batch normalisation that are no weights: nothing is learnt of them."""


_PLAIN_REGIONS = {"wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap"}
"""Parts of a graph that only run under other settings."""


@dataclass
class _Memory:
    """Memory of a tensor: who wrote it, and how.

    Args:
        writer: number of the operator; None for weights and inputs.
        written: as it was written, without values.
        weight: whether it holds a parameter, buffer or constant that no operator has changed.
        of_the_input: whether it depends on the network's input.
    """

    writer: int | None
    written: Tensor
    weight: bool
    of_the_input: bool


class _Reading:
    """Reads an exported graph: operators become nodes, and views of memory are looked through.

    Args:
        program: that was exported.
        batch: samples of the export.
        name: of the network.
        every_reached: whether all that the input reaches grows with the batch, rather than what ``batch`` divides.
    """

    def __init__(self, program: torch.export.ExportedProgram, batch: int, name: str, every_reached: bool = False) -> None:
        self.name = name
        self.builder = GraphBuilder(batch, every_reached)
        self.memories: dict[int, _Memory] = {}
        self.weights: dict[int, float] = {}
        self._take_all(program.graph_module, set(program.graph_signature.user_inputs))

    def graph(self) -> ComputationGraph:
        """What was read."""
        return self.builder.graph(self.name, sum(self.weights.values()))

    def _take_all(self, module: fx.GraphModule, inputs: set[str]) -> None:
        for node in module.graph.nodes:
            if node.op == "call_function":
                self._call(node, module)
            elif node.op in ("placeholder", "get_attr"):
                for tensor in _answers(node):
                    if storage_of(tensor) not in self.memories:
                        weight = node.name not in inputs
                        self.memories[storage_of(tensor)] = _Memory(None, tensor, weight, not weight)

    def _call(self, node: fx.Node, module: fx.GraphModule) -> None:
        if isinstance(node.target, HigherOrderOperator):
            if _name(node) not in _PLAIN_REGIONS:
                raise InputError(
                    f"{self.name} has control flow ({_name(node)}), which no graph of operators tells; take it out of forward"
                )
            for argument in node.args:
                if isinstance(argument, fx.Node) and argument.op == "get_attr":
                    self._take_all(getattr(module, str(argument.target)), set())
            return
        answers = _answers(node) or _changed(node)
        if not answers:
            return
        if any(not isinstance(side, int) for tensor in answers for side in tensor.shape):
            raise InputError(f"the sizes that {_name(node)} answers in {self.name} depend on values; take it out of forward")
        given = [tensor for one in node.all_input_nodes for tensor in _answers(one)]
        if _name(node) in _IDLE or _drops_nothing(node) or self._lies_so(_name(node), given):
            self.memories[storage_of(answers[0])] = self.memories[storage_of(given[0])]
        elif word_of_aten(_name(node)) == "dropout" or not _is_view(node, given, answers):
            self._operator(node, given, answers)

    def _lies_so(self, name: str, given: list[Tensor]) -> bool:
        """Whether this puts heads of attention side by side: on GPUs they lie so, whatever layout the export thinks of."""
        if name not in ("reshape", "flatten", "contiguous", "clone") or given[0].is_contiguous():
            return False
        writer = self.memories[storage_of(given[0])].writer
        return writer is not None and self.builder.words[writer] == "attention"

    def _operator(self, node: fx.Node, given: list[Tensor], answers: list[Tensor]) -> None:
        memories = [self.memories[storage_of(tensor)] for tensor in given]
        of_the_input = any(memory.of_the_input for memory in memories)
        arguments = _arguments(node)
        word = word_of_aten(_name(node))
        if word in ("linear", "matmul") and _name(node) != "linear":  # by what is multiplied, however it is called
            word = "linear" if any(memory.weight for memory in memories) else "matmul"
        hyper = hyper_parameters(word, _multiplied_first(arguments), _shaped(answers[0]), arguments)
        read, weights, deliveries = Elements(), 0.0, []
        unlearnt = [id(value) for name, value in arguments.items() if name in _STATISTICS]
        for tensor, memory in zip(given, memories, strict=True):
            if memory.weight:
                if id(tensor) not in unlearnt:
                    weights += _distinct(tensor)
                    self.weights[storage_of(tensor)] = _distinct(memory.written)
                continue
            elements = self.builder.elements(_distinct(tensor), memory.of_the_input)
            read += elements
            if memory.writer is not None:
                deliveries.append(Delivery(memory.writer, _moved(tensor, memory.written), elements))
        written = Elements()
        for tensor in answers[:1] if word in RECURRENT else answers:
            written += self.builder.elements(_distinct(tensor), of_the_input)
        floating = answers[0].dtype.is_floating_point
        here = self.builder.add(word, _name(node), hyper, read, written, weights, floating, deliveries)
        for tensor in answers:
            self.memories[storage_of(tensor)] = _Memory(here, tensor, False, of_the_input)


def _name(node: fx.Node) -> str:
    """``conv2d`` of ``aten::conv2d.default``; of an operator that is not torch's own with its library before it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__name__", str(node.target))
    return str(schema.name).removeprefix("aten::")


def _drops_nothing(node: fx.Node) -> bool:
    return word_of_aten(_name(node)) == "dropout" and not _arguments(node)["p"]


def _answers(node: fx.Node) -> list[Tensor]:
    """The tensors that a node answers, without values."""
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        return [value]
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _changed(node: fx.Node) -> list[Tensor]:
    """The tensors that a node writes into, of those that it is given."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    into = {one.name for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write}
    return [value for name, value in _arguments(node).items() if name in into and isinstance(value, Tensor)]


def _arguments(node: fx.Node) -> dict[str, Any]:
    """By the names in the operator's schema, tensors in the place of nodes."""
    schema = getattr(node.target, "_schema", None)
    names = [one.name for one in schema.arguments] if schema is not None else []
    values = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta.get("val"))
    return dict(zip(names, values[0], strict=False)) | dict(values[1])


def _multiplied_first(arguments: dict[str, Any]) -> list[Shaped]:
    """The tensors of an operator in their order, but for what a product adds: it comes after what is multiplied."""
    tensors = [one for one in tree_leaves(list(arguments.values())) if isinstance(one, Tensor)]
    multiplied = arguments.get("mat1", arguments.get("batch1"))
    return [_shaped(one) for one in (tensors if multiplied is None else [multiplied, *tensors])]


def _shaped(tensor: Tensor) -> Shaped:
    return Shaped(tuple(tensor.shape), tensor.is_contiguous())


def _is_view(node: fx.Node, given: list[Tensor], answers: list[Tensor]) -> bool:
    """Whether it answers memory that it was given, as it is: no kernel runs."""
    schema = getattr(node.target, "_schema", None)
    if schema is not None and schema.is_mutable:
        return False
    places = {storage_of(tensor) for tensor in given}
    return bool(places) and all(storage_of(tensor) in places for tensor in answers)


def _distinct(tensor: Tensor) -> float:
    """Elements that lie in memory, however often a broadcast view repeats them."""
    return float(math.prod(side for side, step in zip(tensor.shape, tensor.stride(), strict=True) if step))


def _moved(tensor: Tensor, written: Tensor) -> bool:
    """Whether a tensor shows its memory in another order than it was written, or another part of it."""
    return tensor.numel() != written.numel() or (written.is_contiguous() and not tensor.is_contiguous())
