"""What one aten call is to the performance model: its kind of layer, its FLOPs and the activations that it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .metrics import Layer, convolution_kind

_FREE = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias", "device"),
    *("as_strided_", "detach", "detach_", "lift_fresh", "squeeze_", "unsqueeze_", "t_", "transpose_", "sym_size", "sym_stride"),
}
"""What computes and moves nothing, beside views: `empty` is also what batch normalisation calls for statistics it lacks."""

_NORMALISATIONS = {
    *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"),
    *("_batch_norm_no_update", "native_layer_norm", "native_group_norm", "_fused_rms_norm", "linalg_vector_norm"),
}
_POOLINGS = {
    *("max_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
    *("mean", "amax", "max", "sum"),  # over space, which is how many networks write their last pooling
}
_COPIES = {"cat", "stack", "clone", "repeat", "copy_"}
_MOVING = {
    **dict.fromkeys(_NORMALISATIONS, "normalisation"),
    **dict.fromkeys(_POOLINGS, "pooling"),
    **dict.fromkeys(_COPIES, "concatenation"),
}
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}
"""Matrix products, and the position of their first factor."""


def layer_of(operator: Any, arguments: Sequence[Any], given: Sequence[Tensor], answered: Sequence[Tensor]) -> Layer | None:
    """The layer that a call is; None for views and allocations, which cost nothing.

    Args:
        operator: ``OpOverload`` that was called.
        arguments: positional arguments.
        given: the activations among the arguments, that is, what follows from the network's inputs.
        answered: tensors that came out.
    """
    name = operator._schema.name.split("::")[1]
    if operator.is_view or name in _FREE or not answered:
        return None
    read = sum(tensor.numel() for tensor in given)
    # Statistics of normalisations and indices of poolings come after the answer.
    written = answered[0].numel() if name in _NORMALISATIONS | _POOLINGS else sum(tensor.numel() for tensor in answered)
    if given and name in ("convolution", "_convolution"):
        return _convolution(arguments, written)
    if given and name in _PRODUCTS:
        return _product(arguments[_PRODUCTS[name] :][:2], given, read, written)
    # What is made of weights alone, such as a standardised kernel, is made once however large the batch.
    return Layer(_MOVING.get(name, "elementwise"), 0.0, read, written if given else 0)


def _convolution(arguments: Sequence[Any], written: int) -> Layer:
    image, weight = arguments[:2]
    transposed, groups = bool(arguments[6]), int(arguments[8])
    # A transposed convolution multiplies each input with its kernel instead of gathering each output from one.
    flops = 2.0 * (image.numel() if transposed else written) * math.prod(weight.shape[1:])
    kind = convolution_kind(math.prod(weight.shape[2:]), groups, image.shape[1] // groups)
    return Layer(kind, flops, image.numel(), written, flops / (2 * written), _memory(weight), weight.numel())


def _product(factors: Sequence[Tensor], given: Sequence[Tensor], read: int, written: int) -> Layer:
    products = factors[0].shape[-1]
    flops = 2.0 * products * written
    activations = {id(tensor) for tensor in given}
    weight = next((factor for factor in factors if id(factor) not in activations), None)
    if weight is None:
        return Layer("attention", flops, read, written, products)
    return Layer("linear", flops, read, written, products, _memory(weight), weight.numel())


def _memory(tensor: Tensor) -> int:
    """The same for all views of one weight."""
    return int(tensor.untyped_storage()._cdata)
