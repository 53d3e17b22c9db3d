"""What an aten operator is: its word for predictors of occupancy, its kind in a training step, its kind of layer in a ConvNet.

Nothing here needs torch. Operators are ``OpOverload``.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

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
LayerKind = Literal["elementwise", "normalisation", "pooling", "concatenation"]
"""Layers of :mod:`..convmeter.metrics` that memory bounds. Means, sums and maxima over space are how many networks write their
last pooling."""

UNKNOWN = "unknown"


class _Row(NamedTuple):
    """Operators that are alike: their names without overload, also as they are backward, or before others are made of them."""

    word: str
    names: str
    kind: Kind = "elementwise"
    layer: LayerKind = "elementwise"


_ROWS = (
    _Row(UNKNOWN, "all_reduce all_gather reduce_scatter", "communication"),
    _Row(UNKNOWN, "cross_entropy cross_entropy_backward", "loss"),
    _Row(UNKNOWN, "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward", "loss"),
    _Row("convolution", "conv1d conv2d conv3d convolution _convolution convolution_backward", "convolution"),
    _Row("transposed_convolution", "conv_transpose1d conv_transpose2d conv_transpose3d", "convolution"),
    _Row("linear", "linear mv"),
    _Row("linear", "addmm mm", "matmul"),
    _Row("matmul", "matmul bmm baddbmm einsum", "matmul"),
    _Row("attention", "attention attention_backward scaled_dot_product_attention flex_attention", "attention"),
    _Row("lstm", "lstm lstm_cell _thnn_fused_lstm_cell"),
    _Row("gru", "gru gru_cell"),
    _Row("rnn", "rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell"),
    _Row("embedding", "embedding embedding_bag embedding_dense_backward", "embedding"),
    _Row("batch_norm", "batch_norm native_batch_norm native_batch_norm_backward", "normalisation", "normalisation"),
    _Row("batch_norm", "_native_batch_norm_legit _native_batch_norm_legit_no_training", "normalisation", "normalisation"),
    _Row("batch_norm", "cudnn_batch_norm _batch_norm_no_update", "normalisation", "normalisation"),
    _Row("layer_norm", "layer_norm native_layer_norm native_layer_norm_backward", "normalisation", "normalisation"),
    _Row("rms_norm", "rms_norm _fused_rms_norm _fused_rms_norm_backward", "normalisation", "normalisation"),
    _Row("group_norm", "group_norm native_group_norm native_group_norm_backward", "normalisation", "normalisation"),
    _Row("group_norm", "instance_norm", "normalisation", "normalisation"),
    _Row("softmax", "softmax _softmax _softmax_backward_data _safe_softmax", "softmax"),
    _Row("softmax", "log_softmax _log_softmax _log_softmax_backward_data", "softmax"),
    _Row("relu", "relu relu6 hardtanh clamp clamp_min clamp_max threshold"),
    _Row("leaky_relu", "leaky_relu rrelu elu selu celu prelu"),
    _Row("gelu", "gelu"),
    _Row("silu", "silu hardswish mish"),
    _Row("sigmoid", "sigmoid hardsigmoid log_sigmoid softplus softsign glu"),
    _Row("tanh", "tanh hardshrink softshrink tanhshrink"),
    _Row("erf", "erf"),
    _Row("add", "add sub rsub addcmul addcdiv"),
    _Row("multiply", "mul div true_divide reciprocal neg"),
    _Row("power", "pow sqrt rsqrt square"),
    _Row("exponential", "exp exp2 log log2 log10 log1p expm1 logit"),
    _Row("trigonometric", "sin cos tan asin acos atan atan2 sinh cosh"),
    _Row("compare", "eq ne lt le gt ge maximum minimum isnan isinf sign abs"),
    _Row("logical", "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not __and__ __or__"),
    _Row("where", "where masked_fill"),
    _Row("round", "round floor ceil trunc remainder fmod floor_divide"),
    _Row("max_pool", "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices", "reduction", "pooling"),
    _Row("max_pool", "max_pool2d_with_indices_backward max_pool3d_with_indices", "reduction", "pooling"),
    _Row("max_pool", "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", "reduction", "pooling"),
    _Row("average_pool", "avg_pool1d avg_pool2d avg_pool3d avg_pool2d_backward", "reduction", "pooling"),
    _Row("average_pool", "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", "reduction", "pooling"),
    _Row("average_pool", "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d", "reduction", "pooling"),
    _Row("reduce", "sum mean amax max", "reduction", "pooling"),
    _Row("reduce", "linalg_vector_norm", "reduction", "normalisation"),
    _Row("reduce", "amin min prod var std var_mean std_mean norm logsumexp nansum aminmax count_nonzero any all", "reduction"),
    _Row("arg_reduce", "argmax argmin topk sort argsort", "reduction"),
    _Row("scan", "cumsum cumprod diff", "reduction"),
    _Row("concatenate", "cat stack hstack vstack", "copy", "concatenation"),
    _Row("copy", "clone copy_ repeat", "copy", "concatenation"),
    _Row("copy", "copy roll flip repeat_interleave", "copy"),
    _Row("copy", "contiguous to _to_copy reshape flatten tile pixel_shuffle pixel_unshuffle channel_shuffle"),
    _Row("copy", "type_as float half lift_fresh_copy"),
    _Row("pad", "pad constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d", "copy"),
    _Row("index", "index index_select gather take_along_dim masked_select nonzero", "copy"),
    _Row("scatter", "scatter scatter_add index_put index_add index_copy select_scatter slice_scatter masked_scatter", "copy"),
    _Row("scatter", "slice_backward select_backward unfold_backward", "copy"),
    _Row("resize", "upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest3d"),
    _Row("resize", "upsample_linear1d upsample_trilinear3d _upsample_nearest_exact2d _upsample_bilinear2d_aa"),
    _Row("resize", "_upsample_bicubic2d_aa grid_sampler grid_sampler_2d im2col col2im"),
    _Row("create", "zeros ones full empty arange linspace eye tril triu one_hot new_zeros new_ones new_full new_empty"),
    _Row("create", "zeros_like ones_like full_like empty_like scalar_tensor fill zero"),
    _Row("random", "rand randn rand_like randn_like bernoulli normal multinomial"),
    _Row("fourier", "fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn stft"),
    _Row("dropout", "dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout"),
)
_ROW = {name: row for row in _ROWS for name in row.names.split()}
_OTHER = _Row(UNKNOWN, "")
"""An operator that is not listed takes one pass over its data."""

VOCABULARY = tuple(dict.fromkeys(row.word for row in _ROWS))
"""All words. The place of a word is the column of its one-hot feature in fitted models: words are only added at the end."""

ELEMENTWISE = frozenset(VOCABULARY[VOCABULARY.index("relu") : VOCABULARY.index("max_pool")])
"""Words whose every answer comes from one element of each input."""

_FREE = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias", "device"),
    *("as_strided_", "detach", "detach_", "lift_fresh", "squeeze_", "unsqueeze_", "t_", "transpose_", "sym_size", "sym_stride"),
}
"""Views in place, and what else moves nothing: `empty` is also what batch normalisation calls for statistics it lacks."""


def name_of(operator: Any) -> str:
    """``add`` of ``aten::add.Tensor``; of an operator that is not torch's own with its library before it."""
    return str(operator._schema.name).removeprefix("aten::").removeprefix("epochcast::")


def word_of(name: str) -> str:
    """The word of an operator by its name (``conv2d``, ``relu_``)."""
    return _row(name).word


def kind_of(operator: Any) -> Kind | None:
    """Kind in a training step; None for views and bare allocations, which cost nothing."""
    return None if _is_free(operator) else _row(name_of(operator)).kind


def layer_kind_of(operator: Any) -> LayerKind | None:
    """Kind of layer if it is none that computes; None for views and bare allocations."""
    return None if _is_free(operator) else _row(name_of(operator)).layer


def _row(name: str) -> _Row:
    return _ROW.get(name) or _ROW.get(name.removesuffix("_"), _OTHER)


def _is_free(operator: Any) -> bool:
    name = name_of(operator)
    ours = operator.namespace == "epochcast"  # marks of tensor parallelism, unless they are listed
    return bool(operator.is_view) or name in _FREE or (ours and name not in _ROW)
