"""What an aten operator is: its kind in a training step, and the kind of layer that it is in a convolutional network.

Nothing here needs torch. Operators are ``OpOverload``.
"""

from __future__ import annotations

from typing import Any, Literal

Kind = Literal[
    "matmul",  # mm, addmm, bmm, baddbmm: forward, dgrad and wgrad alike
    "attention",  # fused scaled dot product attention
    "convolution",
    "normalisation",  # layer, RMS, batch and group norm
    "softmax",  # softmax and log-softmax
    "embedding",  # gather, and its scattered gradient
    "loss",
    "elementwise",  # one pass over memory: add, mul, gelu, dropout, cast
    "reduction",
    "copy",  # clone, cat, index: bytes moved and nothing computed
    "communication",  # what tensor parallelism must exchange at this place
]
MovingKind = Literal["elementwise", "normalisation", "pooling", "concatenation"]
"""Layers of :mod:`..convmeter.metrics` that memory bounds. Means, sums and maxima over space are how many networks write their
last pooling."""

_ROWS: tuple[tuple[tuple[str, ...], Kind, MovingKind], ...] = (
    (("mm", "addmm", "bmm", "baddbmm"), "matmul", "elementwise"),
    (("convolution", "_convolution", "convolution_backward"), "convolution", "elementwise"),
    (
        (
            *("native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "cudnn_batch_norm"),
            *("_native_batch_norm_legit_no_training", "_batch_norm_no_update", "_fused_rms_norm", "_fused_rms_norm_backward"),
            *("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"),
        ),
        "normalisation",
        "normalisation",
    ),
    (("linalg_vector_norm",), "reduction", "normalisation"),
    (
        (
            *("mean", "amax", "max", "sum", "max_pool1d", "max_pool3d_with_indices", "avg_pool1d", "avg_pool3d"),
            *("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward"),
            *("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d", "adaptive_avg_pool1d"),
            *("adaptive_max_pool2d", "adaptive_max_pool3d"),
        ),
        "reduction",
        "pooling",
    ),
    (
        ("min", "argmax", "cumsum", "var", "var_mean", "any", "all", "prod", "norm", "logsumexp"),
        "reduction",
        "elementwise",
    ),
    (
        ("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "_safe_softmax"),
        "softmax",
        "elementwise",
    ),
    (("embedding", "embedding_dense_backward"), "embedding", "elementwise"),
    (("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"), "loss", "elementwise"),
    (("clone", "cat", "stack", "copy_", "repeat"), "copy", "concatenation"),
    (
        (
            *("index", "index_put", "index_select", "index_add", "gather", "scatter", "scatter_add", "slice_backward"),
            *("select_backward", "constant_pad_nd", "copy", "roll", "flip", "unfold_backward", "repeat_interleave"),
        ),
        "copy",
        "elementwise",
    ),
)
"""Names, kind in a training step, kind of layer. An operator that is not listed takes one pass over its data: elementwise."""

_KINDS = {name: kind for names, kind, _ in _ROWS for name in names}
_MOVING_KINDS = {name: kind for names, _, kind in _ROWS for name in names}

_OURS: dict[str, Kind] = {
    **dict.fromkeys(("attention", "attention_backward"), "attention"),
    **dict.fromkeys(("cross_entropy", "cross_entropy_backward"), "loss"),
    **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "communication"),
}
"""Those of the namespace ``epochcast``."""

_FREE = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias", "device"),
    *("as_strided_", "detach", "detach_", "lift_fresh", "squeeze_", "unsqueeze_", "t_", "transpose_", "sym_size", "sym_stride"),
}
"""Views in place, and what else moves nothing: `empty` is also what batch normalisation calls for statistics it lacks."""


def name_of(operator: Any) -> str:
    """``add`` of ``aten::add.Tensor``."""
    return str(operator._schema.name.split("::")[1])


def kind_of(operator: Any) -> Kind | None:
    """Kind in a training step; None for views and bare allocations, which cost nothing."""
    name = name_of(operator)
    if operator.namespace == "epochcast":
        return _OURS.get(name)
    return None if operator.is_view or name in _FREE else _KINDS.get(name, "elementwise")


def moving_kind_of(operator: Any) -> MovingKind | None:
    """Kind of layer if it is none that computes; None for views and bare allocations."""
    name = name_of(operator)
    if operator.is_view or name in _FREE:
        return None
    return _MOVING_KINDS.get(name, "elementwise")
