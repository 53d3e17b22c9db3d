"""The graph of a torch module, by torch.export on the meta device: no memory, no computing."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.graph_builder import SAMPLES, GraphBuilder
from epochcast.analyzer.backends.occupancy.graph.hyper_parameters import hyper_parameters
from epochcast.analyzer.backends.occupancy.graph.operator_work import RECURRENT
from epochcast.analyzer.backends.occupancy.graph.vocabulary import word_of_aten
from epochcast.analyzer.backends.reader.failures import why_untraceable
from epochcast.analyzer.backends.reader.onnx_values import Value, laid_out
from epochcast.analyzer.backends.reader.running_modules import storage_of
from epochcast.analyzer.errors import InputError


def graph_of_module(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Export a module in evaluation mode and read its graph, with the dropout that a training would have.

    What else is of training alone is not in it: paths that are dropped whole, a second head.

    It is exported with SAMPLES samples, which shows what grows with the batch. Where that fails, or anything grows otherwise
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
    many = tree_map_only(Tensor, lambda tensor: _samples(tensor, batch, SAMPLES, fakes), inputs)
    if not any(isinstance(leaf, Tensor) and SAMPLES in leaf.shape[:1] for leaf in tree_leaves(many)):
        return graph_as_given(module, inputs, name, batch)
    try:
        builder = _Reading(_export(fake, many), SAMPLES, name).builder
    except Exception:  # what holds for its own inputs need not hold for others
        return graph_as_given(module, inputs, name, batch)
    operators = len(builder.words)
    if not builder.linear or operators >= SAMPLES:
        of_batch = graph_as_given(module, inputs, name, batch)
        if not builder.linear or operators - len(of_batch) >= SAMPLES - batch:  # it has operators of each sample
            return of_batch
    return builder.graph(name).at_batch(batch)


def graph_as_given(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Export a module with its own inputs, and take all that depends on them to be proportional to the batch.

    The sizes are those of this batch; at others, masks and positions that a network adds to what depends on its input are not.
    Arguments and errors as for :func:`graph_of_module`.
    """
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    fake = _without_values(module, fakes)
    own = tree_map_only(Tensor, lambda tensor: _samples(tensor, batch, batch, fakes), inputs)
    try:
        return _Reading(_export(fake, own), batch, name, every_reached=True).builder.graph(name)
    except InputError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise InputError(why_untraceable(name, error)) from error


def _without_values(module: nn.Module, fakes: FakeTensorMode) -> nn.Module:
    """A copy in evaluation mode whose tensors have no memory; they are on the processor, as those that forward makes."""
    copied: dict[int, Any] = {}
    for part in module.modules():
        for tensor in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(tensor, Tensor):
                with fakes:
                    fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
                copied[id(tensor)] = nn.Parameter(fake, requires_grad=False) if isinstance(tensor, nn.Parameter) else fake
    return copy.deepcopy(module, copied).eval()


def _samples(tensor: Tensor, batch: int, samples: int, fakes: FakeTensorMode) -> Tensor:
    """A tensor without values like this one; if its first axis is ``batch``, that becomes ``samples``."""
    of_the_batch = tensor.dim() and len(tensor) == batch
    with fakes:
        return torch.empty((samples, *tensor.shape[1:]) if of_the_batch else tensor.shape, dtype=tensor.dtype)


def _export(module: nn.Module, inputs: tuple[Any, ...]) -> torch.export.ExportedProgram:
    with torch.no_grad(), warnings.catch_warnings(), _quickly_and_quietly():
        warnings.simplefilter("ignore")  # on attributes that a forward sets, as nn.LSTM's does
        return torch.export.export(module, inputs, strict=False)


@contextmanager
def _quickly_and_quietly() -> Iterator[None]:
    """Without the pages that torch writes on what it cannot trace: one sentence says so.

    And without the place in the code of every operator, which takes a quarter of the time of an export.
    """
    config: Any = getattr(torch.fx, "config", SimpleNamespace())  # older versions of torch have no such setting
    disabled, unplaced = logging.root.manager.disable, getattr(config, "do_not_emit_stack_traces", False)
    logging.disable(logging.CRITICAL)
    config.do_not_emit_stack_traces = True
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
        config.do_not_emit_stack_traces = unplaced


_IDLE = {"lift_fresh_copy", "detach_"}
"""What answers its input as it is, though the export gives the answer memory of its own; dropout of nothing does so too."""

_STATISTICS = {"running_mean", "running_var"}
"""Arguments of batch normalisation that are no weights: nothing is learnt of them."""

_PLAIN_REGIONS = {"wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap"}
"""Parts of a graph that only run under other settings."""


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
        self.memories: dict[int, Value] = {}  # as they were written; parameters, buffers and constants are weights
        self._read_all(program.graph_module, set(program.graph_signature.user_inputs))

    def _read_all(self, module: fx.GraphModule, inputs: set[str]) -> None:
        for node in module.graph.nodes:
            if node.op == "call_function":
                self._read(node, module)
            elif node.op in ("placeholder", "get_attr"):
                for tensor in _tensors(node):
                    memory, of_the_input = storage_of(tensor), node.name in inputs
                    if memory not in self.memories:
                        weight = "" if of_the_input else str(memory)
                        self.memories[memory] = _written(tensor, weight=weight, of_the_input=of_the_input)

    def _read(self, node: fx.Node, module: fx.GraphModule) -> None:
        name, arguments = _name(node), _arguments(node)
        if isinstance(node.target, HigherOrderOperator):
            if name not in _PLAIN_REGIONS:
                raise InputError(
                    f"{self.name} has control flow ({name}), which an operator graph cannot hold; remove it from forward"
                )
            for argument in node.args:
                if isinstance(argument, fx.Node) and argument.op == "get_attr":
                    self._read_all(getattr(module, str(argument.target)), set())
            return
        changed = [arguments.get(each.name) for each in _parameters(node) if each.alias_info and each.alias_info.is_write]
        answers = _tensors(node) or [value for value in changed if isinstance(value, Tensor)]
        if not answers:
            return
        if any(not isinstance(side, int) for tensor in answers for side in tensor.shape):
            raise InputError(f"the sizes that {name} answers in {self.name} depend on values; take it out of forward")
        inputs = [tensor for argument in node.all_input_nodes for tensor in _tensors(argument)]
        memories = {storage_of(tensor) for tensor in inputs}
        drops = word_of_aten(name) == "dropout"
        if name in _IDLE or (drops and not arguments["p"]) or self._lies_so(name, inputs):
            self.memories[storage_of(answers[0])] = self.memories[storage_of(inputs[0])]
        elif drops or changed or not memories or any(storage_of(tensor) not in memories for tensor in answers):
            self._add(name, arguments, inputs, answers)

    def _lies_so(self, name: str, inputs: list[Tensor]) -> bool:
        """Whether this puts heads of attention side by side: on GPUs they have this layout, regardless of the export's."""
        if name not in ("reshape", "flatten", "contiguous", "clone") or inputs[0].is_contiguous():
            return False
        writer = self.memories[storage_of(inputs[0])].writer
        return writer is not None and self.builder.words[writer] == "attention"

    def _add(self, name: str, arguments: dict[str, Any], inputs: list[Tensor], answers: list[Tensor]) -> None:
        """Make an operator a node of the graph."""
        statistics = [id(value) for argument, value in arguments.items() if argument in _STATISTICS]
        values = [self._value(tensor) for tensor in inputs if id(tensor) not in statistics]
        word = word_of_aten(name)
        if word in ("linear", "matmul") and name != "linear":  # by what is multiplied, however it is called
            word = "linear" if any(value.weight for value in values) else "matmul"
        # What a product adds comes after what is multiplied, though torch names it first.
        ordered = [arguments.get("mat1", arguments.get("batch1")), *tree_leaves(list(arguments.values()))]
        tensors = [self._value(tensor) for tensor in ordered if isinstance(tensor, Tensor)]
        hyper = hyper_parameters(word, tensors, tuple(answers[0].shape), arguments)
        counted = [_written(tensor).distinct for tensor in (answers[:1] if word in RECURRENT else answers)]
        writer, of_the_input = len(self.builder.words), any(value.of_the_input for value in values)
        self.builder.read(word, name, hyper, values, counted, answers[0].dtype.is_floating_point)
        for tensor in answers:
            self.memories[storage_of(tensor)] = _written(tensor, writer=writer, of_the_input=of_the_input)

    def _value(self, tensor: Tensor) -> Value:
        return replace(self.memories[storage_of(tensor)], layout=_written(tensor).layout)


def _written(tensor: Tensor, **memory: Any) -> Value:
    """A tensor as an operator writes it, or as the network holds it; ``memory`` says where it comes from."""
    layout = laid_out(tensor.shape, tensor.stride())
    return Value(layout, written=layout, **memory)


def _name(node: fx.Node) -> str:
    """``conv2d`` of ``aten::conv2d.default``; of an operator that is not torch's own with its library before it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__name__", str(node.target))
    return str(schema.name).removeprefix("aten::")


def _parameters(node: fx.Node) -> list[Any]:
    """Of the operator's schema."""
    return list(getattr(getattr(node.target, "_schema", None), "arguments", ()))


def _arguments(node: fx.Node) -> dict[str, Any]:
    """By the names in the operator's schema, tensors in the place of nodes."""
    values, named = fx.node.map_arg((node.args, node.kwargs), lambda argument: argument.meta.get("val"))
    return dict(zip([each.name for each in _parameters(node)], values, strict=False)) | dict(named)


def _tensors(node: fx.Node) -> list[Tensor]:
    """The tensors that a node answers, without values."""
    return [leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, Tensor)]
