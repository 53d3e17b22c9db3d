"""Hyper-parameters of one node of an ONNX graph, from its attributes and the shapes of its inputs and answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .onnx_values import Layout
from .vocabulary import ELEMENTWISE

Hyper = dict[str, float]
Attributes = Mapping[str, Any]
Layouts = Sequence[Layout]


def hyper_parameters(word: str, attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    """By HYPER_PARAMETERS, without those that do not apply; the same figures as for a torch module.

    Args:
        word: of the operator.
        attributes: by name.
        given: its tensors, weights among them, without those that are left out.
        answer: the first tensor that it answers.
    """
    read = _READERS.get(word)
    hyper = read(attributes, given, answer) if read is not None and given else {}
    hyper["strided"] = float(_strided(word, given, answer))
    return hyper


def _strided(word: str, given: Layouts, answer: Layout) -> bool:
    if word in ELEMENTWISE:
        return any(not one.flags.c_contiguous or one.shape != answer.shape for one in given if one.ndim)
    return any(not one.flags.c_contiguous for one in (given if word == "concatenate" else given[:1]))


def _convolution(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    weight = next(one for one in given[1:] if one.ndim == given[0].ndim)  # scales of quantised ones come before
    kernel, groups = weight.shape[2:], float(attributes.get("group", 1))
    return {
        "input_features": float(given[0].shape[1]),
        "output_features": float(answer.shape[1]),
        "kernel_height": float(kernel[0]),
        "kernel_width": float(kernel[-1]) if len(kernel) > 1 else 1.0,
        "stride": float(attributes.get("strides", [1])[0]),
        "dilation": float(attributes.get("dilations", [1])[0]),
        "groups": groups,
        "reduced": given[0].shape[1] / groups * math.prod(kernel),
    }


def _linear(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    inner = float(given[0].shape[0 if attributes.get("transA") else -1])
    return {"input_features": inner, "output_features": float(answer.shape[-1]) if answer.ndim else 1.0, "reduced": inner}


def _matmul(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    if "equation" in attributes:
        axes, _, answered = attributes["equation"].decode().replace(" ", "").partition("->")
        sides = {
            axis: side
            for said, one in zip(axes.split(","), given, strict=True)
            if "..." not in said
            for axis, side in zip(said, one.shape, strict=True)
        }
        inner = float(math.prod(side for axis, side in sides.items() if axis not in answered))
    else:
        inner = float(given[0].shape[0 if attributes.get("transA") else -1])
    rows = float(answer.shape[-2]) if answer.ndim > 1 else 1.0
    return {"input_features": inner, "output_features": float((1, *answer.shape)[-1]), "rows": rows, "reduced": inner}


def _attention(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    query, key = given[0], given[1]
    heads = float(attributes.get("q_num_heads", attributes.get("num_heads", query.shape[1] if query.ndim > 3 else 1)))
    width = query.shape[-1] / (1.0 if query.ndim > 3 else heads)
    return {
        "input_features": width,
        "output_features": answer.shape[-1] / (1.0 if answer.ndim > 3 else heads),
        "heads": heads,
        "rows": float(query.shape[-2]),
        "reduced": float(key.shape[-2]),
    }


def _recurrent(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    return {
        "input_features": float(given[0].shape[-1]),
        "output_features": float(attributes.get("hidden_size", answer.shape[-1])),
        "rows": float(given[0].shape[1 if attributes.get("layout") else 0]),
        "layers": 1.0,
        "directions": 2.0 if attributes.get("direction") == b"bidirectional" else 1.0,
    }


def _embedding(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    return {"input_features": float(given[0].shape[0]), "output_features": float(given[0].shape[-1])}


def _batch_norm(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    return {"input_features": float(answer.shape[1]), "output_features": float(answer.shape[1])}


def _layer_norm(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    axis = attributes.get("axis", -1)
    return {"reduced": float(math.prod(answer.shape[axis:]))}


def _group_norm(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    groups = float(attributes.get("num_groups", answer.shape[1]))
    return {
        "input_features": float(answer.shape[1]),
        "groups": groups,
        "reduced": answer.size / max(1.0, answer.shape[0] * groups),
    }


def _softmax(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    return {"reduced": float(answer.shape[attributes.get("axis", -1)]) if answer.ndim else 1.0}


def _pool(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    whole = tuple(a // max(1, b) for a, b in zip(given[0].shape[2:], answer.shape[2:], strict=True))
    window = tuple(attributes.get("kernel_shape", whole))
    stride = attributes.get("strides", window if "kernel_shape" not in attributes else (1,))
    return {
        "kernel_height": float(window[0]),
        "kernel_width": float(window[-1]),
        "stride": float(stride[0]),
        "reduced": float(math.prod(window)),
    }


def _reduce(attributes: Attributes, given: Layouts, answer: Layout) -> Hyper:
    return {"reduced": given[0].size / max(1, answer.size)}


_READERS: dict[str, Callable[[Attributes, Layouts, Layout], Hyper]] = {
    "convolution": _convolution,
    "transposed_convolution": _convolution,
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn": _recurrent,
    "embedding": _embedding,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "group_norm": _group_norm,
    "softmax": _softmax,
    "max_pool": _pool,
    "average_pool": _pool,
    "reduce": _reduce,
    "arg_reduce": _reduce,
}
