"""The graph of a network: its recorded forward pass, in which views of memory are looked through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.network.failures import why_untraceable
from epochcast.analyzer.backends.network.operators import word_of
from epochcast.analyzer.backends.network.recording import (
    RecordedCall,
    Recording,
    TensorReference,
    record_evaluation,
    references,
)
from epochcast.analyzer.backends.occupancy.graph.computation_graph import RECURRENT, SAMPLES, ComputationGraph, GraphBuilder
from epochcast.analyzer.backends.occupancy.graph.hyper_parameters import hyper_parameters
from epochcast.analyzer.errors import InputError


def graph_of_module(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Read a module in evaluation mode, with the dropout that a training would have.

    What else is of training alone is not in it: paths that are dropped whole, a second head.

    It is run with SAMPLES samples, which shows what grows with the batch. Where that fails, or anything grows otherwise
    than in proportion (products of samples with each other, a loop over them), it is read by :func:`graph_as_given`.

    Args:
        module: on any device, also without memory; it is left as it was.
        inputs: what it is called with, of any nesting, on any device; tensors whose first axis is ``batch`` grow with it.
        name: for the graph and for messages.
        batch: samples in ``inputs``.

    Raises:
        InputError: it does not run without values (shapes or branches depend on them), or nothing in it computes.
    """
    many = tree_map_only(Tensor, lambda tensor: _samples(tensor, batch), inputs)
    if not any(isinstance(leaf, Tensor) and SAMPLES in leaf.shape[:1] for leaf in tree_leaves(many)):
        return graph_as_given(module, inputs, name, batch)
    try:
        builder = _Reading(record_evaluation(module, many, whole=True), SAMPLES).builder
    except Exception:  # what holds for its own inputs need not hold for others
        return graph_as_given(module, inputs, name, batch)
    operators = len(builder.words)
    if not builder.linear or operators >= SAMPLES:
        of_batch = graph_as_given(module, inputs, name, batch)
        if not builder.linear or operators - len(of_batch) >= SAMPLES - batch:  # it has operators of each sample
            return of_batch
    return builder.graph(name).at_batch(batch)


def graph_as_given(module: nn.Module, inputs: tuple[Any, ...], name: str, batch: int) -> ComputationGraph:
    """Read a module with its own inputs, and take all that depends on them to be proportional to the batch.

    The sizes are those of this batch; at others, masks and positions that a network adds to what depends on its input are not.
    Arguments and errors as for :func:`graph_of_module`.
    """
    try:
        recording = record_evaluation(module, inputs, whole=True)
    except InputError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise InputError(why_untraceable(name, error)) from error
    return _Reading(recording, batch, every_reached=True).builder.graph(name)


def _samples(tensor: Tensor, batch: int) -> Tensor:
    """A tensor without values like this one; if its first axis is ``batch``, that becomes SAMPLES."""
    of_the_batch = tensor.dim() and len(tensor) == batch
    shape = (SAMPLES, *tensor.shape[1:]) if of_the_batch else tensor.shape
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


_IDLE = {"lift_fresh", "lift_fresh_copy", "detach_"}
"""What answers its input as it is; dropout of nothing does so too."""

_STATISTICS = {"running_mean", "running_var"}
"""Arguments of batch normalisation that are no weights: nothing is learnt of them."""


@dataclass(frozen=True)
class _Memory:
    """A storage: which operator wrote it, and whether the input decides it."""

    writer: int | None = None
    of_the_input: bool = False

    @property
    def weight(self) -> bool:
        """Parameters, buffers and constants are weights."""
        return self.writer is None and not self.of_the_input


class _Reading:
    """Operators become nodes, and views of memory are looked through.

    Args:
        recording: of whole operators.
        batch: samples in it.
        every_reached: whether all that the input reaches grows with the batch, rather than what ``batch`` divides.
    """

    def __init__(self, recording: Recording, batch: int, every_reached: bool = False) -> None:
        self.builder = GraphBuilder(batch, every_reached)
        self.memories: dict[int, _Memory] = {}
        for number, tensor in recording.external.items():
            self.memories.setdefault(TensorReference(number, tensor).storage, _Memory(of_the_input=number in recording.inputs))
        for call in recording.calls:
            self._read(call)

    def _read(self, call: RecordedCall) -> None:
        schema = call.operator._schema
        name = str(schema.name).removeprefix("aten::")
        arguments = dict(zip([each.name for each in schema.arguments], call.arguments, strict=False)) | dict(call.options)
        changed = references(
            [arguments.get(each.name) for each in schema.arguments if each.alias_info and each.alias_info.is_write]
        )
        answers, inputs = call.outputs or changed, list(dict.fromkeys(call.inputs))
        if not answers:
            return
        memories = {tensor.storage for tensor in inputs}
        drops = word_of(name) == "dropout"
        if name in _IDLE or (drops and not arguments["p"]) or self._lies_so(name, inputs):
            self.memories[answers[0].storage] = self.memories[inputs[0].storage]
        elif drops or changed or not memories or any(tensor.storage not in memories for tensor in answers):
            self._add(name, arguments, inputs, answers)

    def _lies_so(self, name: str, inputs: list[TensorReference]) -> bool:
        """Whether this puts heads of attention side by side: on GPUs they have this layout, regardless of the recording's."""
        if name not in ("reshape", "flatten", "contiguous", "clone") or inputs[0].meta.is_contiguous():
            return False
        writer = self.memories[inputs[0].storage].writer
        return writer is not None and self.builder.words[writer] == "attention"

    def _add(self, name: str, arguments: dict[str, Any], inputs: list[TensorReference], answers: list[TensorReference]) -> None:
        """Make an operator a node of the graph."""
        builder, word = self.builder, word_of(name)
        statistics = [value for argument, value in arguments.items() if argument in _STATISTICS]
        read, weights, reads, of_the_input = np.zeros(2), 0, [], False
        for tensor in inputs:
            memory, elements = self.memories[tensor.storage], tensor.elements
            if tensor in statistics:
                continue
            of_the_input |= memory.of_the_input
            if memory.weight:
                weights += elements
                continue
            read += builder.elements(elements, memory.of_the_input)
            if memory.writer is not None:
                reads.append(memory.writer)
        if word in ("linear", "matmul") and name != "linear":  # by what is multiplied, however it is called
            word = "linear" if weights else "matmul"
        # What a product adds comes after what is multiplied, though torch names it first.
        ordered = references([arguments.get("mat1", arguments.get("batch1")), *arguments.values()])
        hyper = hyper_parameters(word, [tensor.meta for tensor in ordered], tuple(answers[0].meta.shape), arguments)
        counted = answers[:1] if word in RECURRENT else answers
        written = sum((builder.elements(tensor.elements, of_the_input) for tensor in counted), np.zeros(2))
        writer = builder.add(word, name, hyper, read, written, weights, answers[0].meta.is_floating_point(), reads)
        for tensor in answers:
            self.memories[tensor.storage] = _Memory(writer, of_the_input)
