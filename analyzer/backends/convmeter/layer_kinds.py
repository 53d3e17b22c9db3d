"""What one aten call is to the performance model: its kind of layer, its FLOPs and the activations that it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

DEPTHWISE = 4
"""Input channels per group up to which a convolution counts as depthwise: too few products for a matrix unit at any kernel."""

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
_COPIES = {"cat", "stack", "clone", "repeat", "roll", "index", "index_select", "copy_"}
_MOVING = {
    **dict.fromkeys(_NORMALISATIONS, "normalisation"),
    **dict.fromkeys(_POOLINGS, "pooling"),
    **dict.fromkeys(_COPIES, "concatenation"),
}
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}
"""Matrix products, and the position of their first factor."""


@dataclass(frozen=True)
class Layer:
    """One aten call at batch 1.

    Attributes:
        kind: one of :data:`.metrics.KINDS`.
        flops: 0 for what memory bounds; a multiplication and its addition are two.
        read: elements of the activations read.
        written: elements of the activations written.
        products: added up for one output element; 0 where nothing is multiplied.
        weight: kernel of a convolution or dense layer.
    """

    kind: str
    flops: float
    read: int
    written: int
    products: float = 0.0
    weight: Tensor | None = None


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
    per_group = image.shape[1] // groups
    # A transposed convolution multiplies each input with its kernel instead of gathering each output from one.
    flops = 2.0 * (image.numel() if transposed else written) * math.prod(weight.shape[1:])
    if groups > 1:
        kind = "depthwise" if per_group <= DEPTHWISE else "grouped"
    else:
        kind = "pointwise" if math.prod(weight.shape[2:]) == 1 else "spatial"
    return Layer(kind, flops, image.numel(), written, flops / (2 * written), weight)


def _product(factors: Sequence[Tensor], given: Sequence[Tensor], read: int, written: int) -> Layer:
    flops = 2.0 * factors[0].shape[-1] * written
    activations = {id(tensor) for tensor in given}
    weights = [factor for factor in factors if id(factor) not in activations]
    kind = "linear" if weights else "attention"
    return Layer(kind, flops, read, written, float(factors[0].shape[-1]), weights[0] if weights else None)
