"""The graph of a network: its recorded forward pass, in which views of memory are looked through."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.network.factory import why_untraceable
from epochcast.analyzer.backends.network.operators import ELEMENTWISE, word_of
from epochcast.analyzer.backends.network.recording import (
    RecordedCall,
    Recording,
    TensorReference,
    record_evaluation,
    references,
)
from epochcast.analyzer.backends.occupancy.graph.computation_graph import RECURRENT, SAMPLES, ComputationGraph, GraphBuilder
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


Hyper = Mapping[str, float]
Shape = tuple[int, ...]
Settings = Mapping[str, Any]


def hyper_parameters(word: str, inputs: Sequence[Tensor], answer: Shape, settings: Settings) -> dict[str, float]:
    """By HYPER_PARAMETERS, without those that do not apply.

    Args:
        word: of the operator.
        inputs: its tensors, weights among them, without those that are left out; of a product what is multiplied comes first.
        answer: shape of the first tensor that it answers.
        settings: by the names of the schemas of torch's operators.
    """
    hyper = _hyper_parameters(word, inputs, answer, settings) if inputs else {}
    return {name: float(value) for name, value in hyper.items()} | {"strided": float(_strided(word, inputs, answer))}


def _strided(word: str, inputs: Sequence[Tensor], answer: Shape) -> bool:
    if word in ELEMENTWISE:  # broadcast ones are read with strides too
        return any(not value.is_contiguous() or value.shape != answer for value in inputs if value.shape)
    return any(not value.is_contiguous() for value in (inputs if word == "concatenate" else inputs[:1]))


def _hyper_parameters(word: str, inputs: Sequence[Tensor], answer: Shape, settings: Settings) -> Hyper:
    shape = inputs[0].shape
    match word:
        case "convolution" | "transposed_convolution":
            return _convolution(inputs, answer, settings)
        case "linear" | "matmul":
            inner = _summed(settings["equation"], inputs) if "equation" in settings else shape[-1]
            product = {"input_features": inner, "output_features": (1, *answer)[-1], "reduced": inner}
            return product if word == "linear" else {**product, "rows": answer[-2] if len(answer) > 1 else 1}
        case "attention":
            return {
                "input_features": shape[-1],
                "output_features": answer[-1],
                "heads": shape[-3] if len(shape) > 2 else 1,
                "rows": shape[-2],
                "reduced": inputs[1].shape[-2],
            }
        case "lstm" | "gru" | "rnn":
            directions = 2 if settings.get("bidirectional") else 1
            return {
                "input_features": shape[-1],
                "output_features": answer[-1] / directions,
                "rows": shape[1 if settings.get("batch_first") else 0] if len(shape) > 2 else 1,
                "layers": settings.get("num_layers", 1),
                "directions": directions,
            }
        case "embedding":
            return {"input_features": shape[0], "output_features": shape[-1]}
        case "batch_norm":
            return {"input_features": answer[1], "output_features": answer[1]}
        case "layer_norm" | "rms_norm":
            return {"reduced": math.prod(settings["normalized_shape"])}
        case "group_norm":
            groups = settings.get("num_groups", answer[1])
            reduced = math.prod(answer) / max(1, answer[0] * groups)
            return {"input_features": answer[1], "groups": groups, "reduced": reduced}
        case "softmax":
            return {"reduced": answer[settings["dim"]] if answer else 1}
        case "max_pool" | "average_pool":
            return _pool(shape, answer, settings)
        case "reduce" | "arg_reduce":
            return {"reduced": math.prod(shape) / max(1, math.prod(answer))}
    return {}


def _convolution(inputs: Sequence[Tensor], answer: Shape, settings: Settings) -> Hyper:
    image, kernel, groups = inputs[0].shape, inputs[1].shape[2:], settings.get("groups", 1)
    channels = -1 - len(kernel)  # an image may be without a batch
    return {
        "input_features": image[channels],
        "output_features": answer[channels],
        "kernel_height": kernel[0],
        "kernel_width": kernel[-1] if len(kernel) > 1 else 1,
        "stride": _first(settings.get("stride"), 1),
        "dilation": _first(settings.get("dilation"), 1),
        "groups": groups,
        "reduced": image[channels] / groups * math.prod(kernel),
    }


def _summed(equation: str, inputs: Sequence[Tensor]) -> int:
    """Elements over which an einsum sums: the sides of the axes that the answer does not have."""
    terms, _, answered = equation.replace(" ", "").partition("->")
    sides: dict[str, int] = {}
    for axes, value in zip(terms.split(","), inputs, strict=True):
        if "..." not in axes:
            sides |= zip(axes, value.shape, strict=True)
    return math.prod(side for axis, side in sides.items() if axis not in answered)


def _pool(shape: Shape, answer: Shape, settings: Settings) -> Hyper:
    window = settings.get("kernel_size")
    if window is None:  # adaptive or global: what one answer covers
        window = [max(1, side // max(1, left)) for side, left in zip(shape[2:], answer[2:], strict=True)]
    elif not isinstance(window, Sequence):
        window = [window, window]
    return {
        "kernel_height": window[0],
        "kernel_width": window[-1],
        "stride": _first(settings.get("stride"), window[0]),
        "reduced": math.prod(window),
    }


def _first(value: Any, otherwise: int) -> int:
    if isinstance(value, Sequence):
        return value[0] if value else otherwise
    return otherwise if value is None else value
