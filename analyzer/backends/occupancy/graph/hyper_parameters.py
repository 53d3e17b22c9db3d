"""Hyper-parameters of one operator, from the shapes that it reads and answers and its settings as torch calls them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .vocabulary import ELEMENTWISE

Hyper = dict[str, float]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Shaped:
    """What counts of a tensor: its sides, and whether its elements lie one behind the other."""

    shape: tuple[int, ...]
    contiguous: bool = True

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Given = Sequence[Shaped]


def hyper_parameters(word: str, given: Given, answer: Shaped, settings: Settings) -> Hyper:
    """By HYPER_PARAMETERS, without those that do not apply.

    Args:
        word: of the operator.
        given: its tensors, weights among them, without those that are left out; of a product what is multiplied comes first.
        answer: the first tensor that it answers.
        settings: by the names of the schemas of torch's operators; of an ONNX node by :func:`onnx_settings`.
    """
    read = _READERS.get(word)
    hyper = read(given, answer, settings) if read is not None and given else {}
    hyper["strided"] = float(_strided(word, given, answer))
    return hyper


def onnx_settings(attributes: Mapping[str, Any], answer: tuple[int, ...]) -> dict[str, Any]:
    """Attributes of an ONNX node by torch's names; ``answer`` is the shape of what it answers."""
    axis = attributes.get("axis", -1)
    heads = attributes.get("q_num_heads", attributes.get("num_heads"))
    return {
        "kernel_size": attributes.get("kernel_shape"),
        "stride": attributes.get("strides", [1] if "kernel_shape" in attributes else None),
        "dilation": attributes.get("dilations"),
        "groups": attributes.get("group", 1),
        "num_groups": attributes.get("num_groups"),
        "dim": axis,
        "normalized_shape": answer[axis:],
        "equation": attributes["equation"].decode() if "equation" in attributes else None,
        "transposed": attributes.get("transA"),
        "heads": heads,
        "packed_heads": heads or 1,
        "batch_first": attributes.get("layout"),
        "bidirectional": attributes.get("direction") == b"bidirectional",
    }


def _strided(word: str, given: Given, answer: Shaped) -> bool:
    if word in ELEMENTWISE:  # broadcast ones are read with strides too
        return any(not one.contiguous or one.shape != answer.shape for one in given if one.shape)
    return any(not one.contiguous for one in (given if word == "concatenate" else given[:1]))


def _convolution(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    image, groups = given[0], float(settings.get("groups", 1))
    # Scales of quantised ones come before the weight; an image may be without a batch.
    weight = next((one for one in given[1:] if len(one.shape) == len(image.shape)), given[1])
    kernel = weight.shape[2:]
    channels = -1 - len(kernel)
    return {
        "input_features": float(image.shape[channels]),
        "output_features": float(answer.shape[channels]),
        "kernel_height": float(kernel[0]),
        "kernel_width": float(kernel[-1]) if len(kernel) > 1 else 1.0,
        "stride": float(_first(settings.get("stride"), 1)),
        "dilation": float(_first(settings.get("dilation"), 1)),
        "groups": groups,
        "reduced": image.shape[channels] / groups * math.prod(kernel),
    }


def _linear(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    if settings.get("equation"):
        inner = _summed(str(settings["equation"]), given)
    else:
        inner = float(given[0].shape[0 if settings.get("transposed") else -1])
    return {"input_features": inner, "output_features": float((1, *answer.shape)[-1]), "reduced": inner}


def _matmul(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return _linear(given, answer, settings) | {"rows": float(answer.shape[-2]) if len(answer.shape) > 1 else 1.0}


def _summed(equation: str, given: Given) -> float:
    """Elements over which an einsum sums: the sides of the axes that the answer does not have."""
    terms, _, answered = equation.replace(" ", "").partition("->")
    sides = {
        axis: side
        for axes, tensor in zip(terms.split(","), given, strict=True)
        if "..." not in axes
        for axis, side in zip(axes, tensor.shape, strict=True)
    }
    return float(math.prod(side for axis, side in sides.items() if axis not in answered))


def _attention(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    query, key = given[:2]
    packed = settings.get("packed_heads") if len(query.shape) <= 3 else None  # ONNX may have all heads in the last axis
    heads = packed or settings.get("heads") or (query.shape[-3] if len(query.shape) > 2 else 1)
    return {
        "input_features": query.shape[-1] / (packed or 1.0),
        "output_features": answer.shape[-1] / (packed or 1.0),
        "heads": float(heads),
        "rows": float(query.shape[-2]),
        "reduced": float(key.shape[-2]),
    }


def _recurrent(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    steps = given[0].shape
    directions = 2.0 if settings.get("bidirectional") else 1.0
    return {
        "input_features": float(steps[-1]),
        "output_features": answer.shape[-1] / directions,
        "rows": float(steps[1 if settings.get("batch_first") else 0]) if len(steps) > 2 else 1.0,
        "layers": float(settings.get("num_layers", 1)),
        "directions": directions,
    }


def _embedding(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return {"input_features": float(given[0].shape[0]), "output_features": float(given[0].shape[-1])}


def _batch_norm(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return {"input_features": float(answer.shape[1]), "output_features": float(answer.shape[1])}


def _layer_norm(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return {"reduced": float(math.prod(settings["normalized_shape"]))}


def _group_norm(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    groups = float(settings.get("num_groups") or settings.get("group") or answer.shape[1])
    return {
        "input_features": float(answer.shape[1]),
        "groups": groups,
        "reduced": answer.size / max(1.0, answer.shape[0] * groups),
    }


def _softmax(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return {"reduced": float(answer.shape[settings["dim"]]) if answer.shape else 1.0}


def _pool(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    size = settings.get("kernel_size")
    if size is None:  # adaptive or global: what one answer covers
        window = tuple(max(1, a // max(1, b)) for a, b in zip(given[0].shape[2:], answer.shape[2:], strict=True))
    else:
        window = tuple(size) if isinstance(size, Sequence) else (size, size)
    return {
        "kernel_height": float(window[0]),
        "kernel_width": float(window[-1]),
        "stride": float(_first(settings.get("stride"), window[0])),
        "reduced": float(math.prod(window)),
    }


def _reduce(given: Given, answer: Shaped, settings: Settings) -> Hyper:
    return {"reduced": given[0].size / max(1, answer.size)}


def _first(value: Any, otherwise: int) -> int:
    if isinstance(value, Sequence):
        return int(value[0]) if value else otherwise
    return otherwise if value is None else int(value)


_READERS: dict[str, Callable[[Given, Shaped, Settings], Hyper]] = {
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
