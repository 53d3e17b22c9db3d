"""The operator types that predictors distinguish: one word for what torch and ONNX call by many names.

The order is the order of the one-hot features of fitted models: words are only ever added at the end.
"""

from __future__ import annotations

UNKNOWN = "unknown"

_WORDS: dict[str, tuple[str, str]] = {
    # word: (names of torch's aten operators, names of ONNX operators)
    UNKNOWN: ("", ""),
    "convolution": ("conv1d conv2d conv3d convolution", "Conv ConvInteger QLinearConv"),
    "transposed_convolution": ("conv_transpose1d conv_transpose2d conv_transpose3d", "ConvTranspose"),
    "linear": ("linear addmm mm mv", "Gemm"),
    "matmul": ("matmul bmm baddbmm einsum", "MatMul MatMulInteger QLinearMatMul Einsum"),
    "attention": (
        "scaled_dot_product_attention _native_multi_head_attention _scaled_dot_product_flash_attention flex_attention",
        "Attention MultiHeadAttention GroupQueryAttention",
    ),
    "lstm": ("lstm lstm_cell _thnn_fused_lstm_cell", "LSTM"),
    "gru": ("gru gru_cell", "GRU"),
    "rnn": ("rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell", "RNN"),
    "embedding": ("embedding embedding_bag", ""),
    "batch_norm": ("batch_norm native_batch_norm", "BatchNormalization"),
    "layer_norm": ("layer_norm native_layer_norm", "LayerNormalization SkipLayerNormalization"),
    "rms_norm": ("rms_norm", "RMSNormalization SimplifiedLayerNormalization"),
    "group_norm": ("group_norm native_group_norm instance_norm", "GroupNormalization InstanceNormalization"),
    "softmax": ("softmax _softmax log_softmax", "Softmax LogSoftmax"),
    "relu": ("relu relu6 hardtanh clamp clamp_min clamp_max threshold", "Relu Clip"),
    "leaky_relu": ("leaky_relu rrelu elu selu celu prelu", "LeakyRelu Elu Selu Celu PRelu ThresholdedRelu"),
    "gelu": ("gelu", "Gelu FastGelu BiasGelu QuickGelu"),
    "silu": ("silu hardswish mish", "HardSwish Mish Swish"),
    "sigmoid": ("sigmoid hardsigmoid log_sigmoid softplus softsign glu", "Sigmoid HardSigmoid Softplus Softsign"),
    "tanh": ("tanh hardshrink softshrink tanhshrink", "Tanh Shrink"),
    "erf": ("erf", "Erf"),
    "add": ("add sub rsub addcmul addcdiv", "Add Sub Sum"),
    "multiply": ("mul div true_divide reciprocal neg", "Mul Div Reciprocal Neg"),
    "power": ("pow sqrt rsqrt square", "Pow Sqrt"),
    "exponential": ("exp exp2 log log2 log10 log1p expm1 logit", "Exp Log"),
    "trigonometric": ("sin cos tan asin acos atan atan2 sinh cosh", "Sin Cos Tan Asin Acos Atan Sinh Cosh"),
    "compare": (
        "eq ne lt le gt ge maximum minimum isnan isinf sign abs",
        "Equal Less LessOrEqual Greater GreaterOrEqual Max Min IsNaN IsInf Sign Abs",
    ),
    "logical": ("logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not __and__ __or__", "And Or Not Xor"),
    "where": ("where masked_fill", "Where"),
    "round": (
        "round floor ceil trunc remainder fmod floor_divide",
        "Round Floor Ceil Mod QuantizeLinear DynamicQuantizeLinear DequantizeLinear",
    ),
    "max_pool": (
        "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices adaptive_max_pool1d adaptive_max_pool2d",
        "MaxPool GlobalMaxPool",
    ),
    "average_pool": (
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d",
        "AveragePool GlobalAveragePool LpPool GlobalLpPool",
    ),
    "reduce": (
        "sum mean amax amin max min prod var std var_mean norm linalg_vector_norm std_mean logsumexp nansum aminmax "
        "count_nonzero any all",
        "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp",
    ),
    "arg_reduce": ("argmax argmin topk sort argsort", "ArgMax ArgMin TopK"),
    "scan": ("cumsum cumprod diff", "CumSum"),
    "concatenate": ("cat stack hstack vstack", "Concat"),
    "copy": (
        "contiguous clone copy to _to_copy reshape flatten repeat tile roll flip pixel_shuffle pixel_unshuffle channel_shuffle "
        "repeat_interleave type_as float half lift_fresh_copy",
        "Transpose Cast CastLike Expand Tile DepthToSpace SpaceToDepth",
    ),
    "pad": ("pad constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d", "Pad"),
    "index": (
        "index index_select gather take_along_dim masked_select nonzero",
        "Gather GatherElements GatherND NonZero Compress Slice",
    ),
    "scatter": (
        "scatter scatter_add index_put index_add index_copy select_scatter slice_scatter masked_scatter",
        "Scatter ScatterElements ScatterND",
    ),
    "resize": (
        "upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest3d upsample_linear1d "
        "upsample_trilinear3d _upsample_nearest_exact2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa grid_sampler "
        "grid_sampler_2d im2col col2im unfold_backward",
        "Resize Upsample GridSample Col2Im",
    ),
    "create": (
        "zeros ones full empty arange linspace eye tril triu one_hot new_zeros new_ones new_full new_empty zeros_like "
        "ones_like full_like empty_like scalar_tensor fill zero",
        "ConstantOfShape Range EyeLike OneHot Trilu",
    ),
    "random": (
        "rand randn rand_like randn_like bernoulli normal multinomial",
        "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial",
    ),
    "fourier": ("fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn stft", "DFT STFT"),
    "dropout": ("dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout", ""),
}

VOCABULARY = tuple(_WORDS)
"""All words; the place of a word is the column of its one-hot feature."""

ELEMENTWISE = frozenset(
    {
        *("relu", "leaky_relu", "gelu", "silu", "sigmoid", "tanh", "erf", "add", "multiply", "power", "exponential"),
        *("trigonometric", "compare", "logical", "where", "round"),
    }
)
"""Words whose every answer comes from one element of each input."""

_OF_ATEN = {name: word for word, (names, _) in _WORDS.items() for name in names.split()}
_OF_ONNX = {name: word for word, (_, names) in _WORDS.items() for name in names.split()}


def word_of_aten(name: str) -> str:
    """The word of an aten operator by its name without overload (``conv2d``, ``relu_``); ``unknown`` for all others."""
    return _OF_ATEN.get(name) or _OF_ATEN.get(name.removesuffix("_"), UNKNOWN)


def word_of_onnx(name: str) -> str:
    """The word of an ONNX operator type (``Conv``); ``unknown`` for all others."""
    return _OF_ONNX.get(name, UNKNOWN)
