"""Floating-point operations of an operator, from its type, hyper-parameters and sizes (Table I).

Section III-C: a convolution's FLOPs are 2·K·C·R·S·N·P·Q, and those of attention are those of its matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping

PRODUCTS = ("convolution", "transposed_convolution", "linear", "matmul")
RECURRENT = {"lstm": 4, "gru": 3, "rnn": 1}
"""Gates of each recurrent layer."""

_PER_ELEMENT = {
    "softmax": 5.0,
    "batch_norm": 4.0,
    "layer_norm": 8.0,
    "rms_norm": 5.0,
    "group_norm": 8.0,
    "gelu": 8.0,
    "silu": 5.0,
    "sigmoid": 4.0,
    "tanh": 5.0,
    "exponential": 2.0,
    **dict.fromkeys(("concatenate", "copy", "pad", "index", "scatter", "create", "embedding", "random"), 0.0),
}
"""Of each element written; one for every other operator."""


def flops(word: str, hyper: Mapping[str, float], read: float, written: float) -> float:
    """FLOPs of one call; ``hyper`` by HYPER_PARAMETERS, missing ones are 0, sizes in elements of activations."""
    if word == "transposed_convolution":  # every element read meets every weight of its channel
        window = hyper.get("kernel_height", 1.0) * hyper.get("kernel_width", 1.0)
        return 2.0 * read * window * hyper.get("output_features", 0.0) / max(1.0, hyper.get("groups", 1.0))
    if word in PRODUCTS:
        return 2.0 * written * hyper.get("reduced", 0.0)
    if word == "attention":  # queries with keys, and weights with values
        return 4.0 * written * hyper.get("reduced", 0.0)
    if word in RECURRENT:
        hidden, layers = hyper.get("output_features", 0.0), max(1.0, hyper.get("layers", 1.0))
        above = hidden * max(1.0, hyper.get("directions", 1.0))  # a layer reads both directions of the one before
        widths = hyper.get("input_features", 0.0) + (layers - 1) * above + layers * hidden
        return RECURRENT[word] * (2.0 * written * widths)  # the last layer's answer: steps x batch x hidden x directions
    if word in ("max_pool", "average_pool"):
        return written * max(1.0, hyper.get("reduced", 0.0))
    if word in ("reduce", "arg_reduce", "scan"):
        return read
    return _PER_ELEMENT.get(word, 1.0) * written
