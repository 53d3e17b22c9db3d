"""What class an aten operator belongs to, and how many operations it has."""

from __future__ import annotations

from typing import Any

from torch.utils.flop_counter import flop_registry

from .attention_operator import attention_flops
from .graph import Kind

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), "matmul"),
    **dict.fromkeys(("convolution", "convolution_backward", "_convolution"), "convolution"),
    **dict.fromkeys(
        (
            *("native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward"),
            *("native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "cudnn_batch_norm"),
            *("native_group_norm", "native_group_norm_backward"),
        ),
        "normalisation",
    ),
    **dict.fromkeys(
        ("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "_safe_softmax"), "softmax"
    ),
    **dict.fromkeys(("embedding", "embedding_dense_backward"), "embedding"),
    **dict.fromkeys(("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"), "loss"),
    **dict.fromkeys(
        (
            *("sum", "mean", "amax", "max", "min", "argmax", "cumsum", "var", "var_mean", "any", "all", "prod", "norm"),
            *("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward"),
            *("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "logsumexp", "linalg_vector_norm"),
        ),
        "reduction",
    ),
    **dict.fromkeys(
        (
            *("clone", "cat", "stack", "index", "index_put", "index_select", "gather", "scatter", "scatter_add"),
            *("slice_backward", "select_backward", "constant_pad_nd", "copy", "copy_", "repeat", "roll", "flip"),
            *("unfold_backward", "index_add", "repeat_interleave"),
        ),
        "copy",
    ),
}

_OURS: dict[str, Kind] = {
    **dict.fromkeys(("attention", "attention_backward"), "attention"),
    **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "communication"),
}

_FREE = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias", "device"}
"""Operators that compute nothing and move nothing, beside views."""


def kind_of(operator: Any) -> Kind | None:
    """Class of an aten operator (an ``OpOverload``); None for views and bare allocations, which cost nothing.

    Whatever is not listed takes one pass over its data: elementwise.
    """
    namespace, name = operator.namespace, operator._schema.name.split("::")[1]
    if namespace == "epochcast":
        return _OURS.get(name)
    if operator.is_view or name in _FREE:
        return None
    return _KINDS.get(name, "elementwise")


def flops_of(operator: Any, arguments: tuple[Any, ...], answer: Any) -> float:
    """FLOPs by torch's own registry (matrix products and convolutions); 0 for what memory bounds."""
    name = operator._schema.name
    if name in ("epochcast::attention", "epochcast::attention_backward"):
        backward = name.endswith("backward")
        query, key, value = (tuple(tensor.shape) for tensor in arguments[1 if backward else 0 :][:3])
        return attention_flops(query, key, value, backward, causal=bool(arguments[-1]))
    count = flop_registry.get(operator._overloadpacket)
    return float(count(*arguments, out_val=answer)) if count is not None else 0.0
