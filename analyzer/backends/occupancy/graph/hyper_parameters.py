"""Hyper-parameters of one operator, from the shapes that it reads and answers and its settings as torch calls them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from epochcast.analyzer.backends.network.operators import ELEMENTWISE

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
