"""Hyper-parameters of one node of an exported network, from the arguments of its aten operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from .vocabulary import ELEMENTWISE

Hyper = dict[str, float]


def hyper_parameters(word: str, arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    """By HYPER_PARAMETERS, without those that do not apply.

    Args:
        word: of the operator.
        arguments: by the names of the operator's schema, tensors as (meta) tensors.
        answer: the first tensor that it answers.
    """
    read = _READERS.get(word)
    hyper = read(arguments, answer) if read is not None else {}
    hyper["strided"] = float(_strided(word, arguments, answer))
    return hyper


def _strided(word: str, arguments: Mapping[str, Any], answer: Tensor) -> bool:
    tensors = [one for one in tree_leaves(list(arguments.values())) if isinstance(one, Tensor)]
    if word in ELEMENTWISE:  # broadcast ones are read with strides too
        return any(not one.is_contiguous() or one.shape != answer.shape for one in tensors if one.dim())
    if word != "concatenate":
        tensors = [one for one in (arguments.get("mat1"), *tensors) if one is not None][:1]
    return any(not one.is_contiguous() for one in tensors)


def _convolution(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    given, weight, groups = arguments["input"], arguments["weight"], float(arguments.get("groups", 1))
    kernel = weight.shape[2:]
    channels = -1 - len(kernel)
    return {
        "input_features": float(given.shape[channels]),
        "output_features": float(answer.shape[channels]),
        "kernel_height": float(kernel[0]),
        "kernel_width": float(kernel[-1]) if len(kernel) > 1 else 1.0,
        "stride": float(_first(arguments.get("stride"), 1)),
        "dilation": float(_first(arguments.get("dilation"), 1)),
        "groups": groups,
        "reduced": given.shape[channels] / groups * math.prod(kernel),
    }


def _linear(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    inner = float(_multiplied(arguments).shape[-1])
    return {"input_features": inner, "output_features": float(answer.shape[-1]) if answer.dim() else 1.0, "reduced": inner}


def _matmul(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    inner = _summed(arguments) if "equation" in arguments else float(_multiplied(arguments).shape[-1])
    rows = float(answer.shape[-2]) if answer.dim() > 1 else 1.0
    columns = float(answer.shape[-1]) if answer.dim() else 1.0
    return {"input_features": inner, "output_features": columns, "rows": rows, "reduced": inner}


def _multiplied(arguments: Mapping[str, Any]) -> Tensor:
    """The first matrix of a product, by what torch's operators call it; what is added comes before it."""
    for name in ("mat1", "batch1", "input", "self", "tensors"):
        if isinstance(arguments.get(name), Tensor):
            return arguments[name]
    return next(one for one in tree_leaves(list(arguments.values())) if isinstance(one, Tensor))


def _summed(arguments: Mapping[str, Any]) -> float:
    """Elements over which torch.einsum sums: the sides of the axes that the answer does not have."""
    given, _, answered = str(arguments["equation"]).replace(" ", "").partition("->")
    sides = {
        axis: side
        for axes, tensor in zip(given.split(","), arguments["tensors"], strict=True)
        if "..." not in axes
        for axis, side in zip(axes, tensor.shape, strict=True)
    }
    return float(math.prod(side for axis, side in sides.items() if axis not in answered))


def _attention(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    query, key = arguments["query"], arguments["key"]
    return {
        "input_features": float(query.shape[-1]),
        "output_features": float(answer.shape[-1]),
        "heads": float(query.shape[-3]) if query.dim() > 2 else 1.0,
        "rows": float(query.shape[-2]),
        "reduced": float(key.shape[-2]),
    }


def _recurrent(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    given = arguments["input"] if "input" in arguments else arguments["data"]
    directions = 2.0 if arguments.get("bidirectional") else 1.0
    batch_first = bool(arguments.get("batch_first"))
    return {
        "input_features": float(given.shape[-1]),
        "output_features": float(answer.shape[-1]) / directions,
        "rows": float(given.shape[1 if batch_first else 0]) if given.dim() > 2 else 1.0,
        "layers": float(arguments.get("num_layers", 1)),
        "directions": directions,
    }


def _embedding(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    return {"input_features": float(arguments["weight"].shape[0]), "output_features": float(arguments["weight"].shape[-1])}


def _batch_norm(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    channels = float(answer.shape[1])
    return {"input_features": channels, "output_features": channels}


def _layer_norm(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    return {"reduced": float(math.prod(arguments["normalized_shape"]))}


def _group_norm(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    groups = float(arguments.get("num_groups", arguments.get("group", answer.shape[1])))
    return {
        "input_features": float(answer.shape[1]),
        "groups": groups,
        "reduced": answer.numel() / max(1.0, answer.shape[0] * groups),
    }


def _softmax(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    return {"reduced": float(answer.shape[arguments["dim"]]) if answer.dim() else 1.0}


def _pool(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    given = arguments["self"]
    window = _pair(arguments.get("kernel_size"))
    if window is None:  # adaptive: what one answer covers
        window = tuple(max(1, a // max(1, b)) for a, b in zip(given.shape[2:], answer.shape[2:], strict=True))
    return {
        "kernel_height": float(window[0]),
        "kernel_width": float(window[-1]),
        "stride": float(_first(arguments.get("stride"), window[0])),
        "reduced": float(math.prod(window)),
    }


def _reduce(arguments: Mapping[str, Any], answer: Tensor) -> Hyper:
    given = next(one for one in arguments.values() if isinstance(one, Tensor))
    return {"reduced": given.numel() / max(1, answer.numel())}


def _first(value: Any, otherwise: int) -> int:
    if isinstance(value, Sequence):
        return int(value[0]) if value else otherwise
    return otherwise if value is None else int(value)


def _pair(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    return tuple(int(one) for one in value) if isinstance(value, Sequence) else (int(value), int(value))


_READERS: dict[str, Callable[[Mapping[str, Any], Tensor], Hyper]] = {
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
