"""What torch calls for each operator of ONNX."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

DTYPES: Mapping[int, torch.dtype] = {
    1: torch.float32,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
    9: torch.bool,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
}
"""As TensorProto numbers them."""

_ERF = ({"Add"}, ({"Erf"}, ({"Div", "Mul"}, "x", "ROOT")), "ONE")
FUSED: Sequence[tuple[str, Any]] = (
    ("Dense", ({"Add"}, ({"MatMul"}, "x", "WEIGHT"), "BIAS")),
    ("Swish", ({"Mul"}, ({"Sigmoid"}, "x"), "x")),
    ("Gelu", ({"Mul"}, ({"Mul"}, "x", _ERF), "HALF")),
    ("Gelu", ({"Mul"}, ({"Mul"}, "x", "HALF"), _ERF)),
)
"""Operators of torch that its exporters write as several nodes: type, and what is made of what. Capitals are constants."""


def _values(value: Any) -> list[int]:
    return [] if value is None else [int(one) for one in value.tolist()]


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _for(name: str, rank: int) -> Callable[..., Tensor]:
    """``conv2d`` of ``conv`` and 2."""
    call: Callable[..., Tensor] = getattr(functional, f"{name}{rank}d")
    return call


def _padded(x: Tensor, window: Sequence[int], given: Mapping[str, Any], value: float = 0.0) -> tuple[Tensor, Sequence[int]]:
    """The tensor, with the padding that a convolution or pooling cannot do by itself, and the one that it can."""
    rank, mode = len(window), given.get("auto_pad", b"NOTSET")
    pads = given.get("pads", [0] * (2 * rank))
    if mode.startswith(b"SAME"):
        steps = given.get("strides", [1] * rank)
        axes = zip(x.shape[2:], window, steps, strict=True)
        missing = [max(0, (-(-side // step) - 1) * step + seen - side) for side, seen, step in axes]
        less, more = [one // 2 for one in missing], [one - one // 2 for one in missing]
        pads = [*less, *more] if mode == b"SAME_UPPER" else [*more, *less]
    if pads[:rank] == pads[rank:]:
        return x, pads[:rank]
    sides = [pads[place] for axis in reversed(range(rank)) for place in (axis, axis + rank)]
    return functional.pad(x, sides, value=value), [0] * rank


def _convolution(x: Tensor, weight: Tensor, bias: Any = None, **given: Any) -> Tensor:
    rank = weight.dim() - 2
    dilations = given.get("dilations", [1] * rank)
    window = [(side - 1) * step + 1 for side, step in zip(weight.shape[2:], dilations, strict=True)]
    x, padding = _padded(x, window, given)
    return _for("conv", rank)(x, weight, bias, given.get("strides", 1), padding, dilations, given.get("group", 1))


def _transposed_convolution(x: Tensor, weight: Tensor, bias: Any = None, **given: Any) -> Tensor:
    rank = weight.dim() - 2
    names = {"strides": 1, "pads": [0] * rank, "output_padding": 0, "group": 1, "dilations": 1}
    strides, pads, *others = [given.get(name, usual) for name, usual in names.items()]
    return _for("conv_transpose", rank)(x, weight, bias, strides, pads[:rank], *others)


def _pool(x: Tensor, maximum: bool, *, kernel_shape: Sequence[int], **given: Any) -> Tensor:
    rank, strides = len(kernel_shape), given.get("strides", 1)
    x, padding = _padded(x, kernel_shape, given, -math.inf if maximum else 0.0)
    ceil = bool(given.get("ceil_mode"))
    if maximum:
        return _for("max_pool", rank)(x, kernel_shape, strides, padding, given.get("dilations", 1), ceil)
    return _for("avg_pool", rank)(x, kernel_shape, strides, padding, ceil, bool(given.get("count_include_pad")))


def _linear(a: Tensor, b: Tensor, c: Any = None, **given: Any) -> Tensor:
    if b.dim() != 2:
        return a @ b + c
    return functional.linear(a.t() if given.get("transA") else a, b if given.get("transB") else b.t(), c)


def _reduced(call: Callable[..., Tensor], x: Tensor, axes: Any = None, **given: Any) -> Tensor:
    dims = _values(axes) or given.get("axes") or range(x.dim())
    return call(x, dim=tuple(dims), keepdim=bool(given.get("keepdims", 1)))


def _reshape(x: Tensor, shape: Any, **_: Any) -> Tensor:
    return x.reshape([x.shape[place] if side == 0 else side for place, side in enumerate(_values(shape))])


def _squeeze(x: Tensor, given: Any = None, *, axes: Any = None) -> Tensor:
    return x.squeeze(tuple(_values(given) or axes or [place for place, side in enumerate(x.shape) if side == 1]))


def _unsqueeze(x: Tensor, given: Any = None, *, axes: Any = None) -> Tensor:
    dims = _values(given) or axes
    for axis in sorted(axis % (x.dim() + len(dims)) for axis in dims):
        x = x.unsqueeze(axis)
    return x


def _slice(x: Tensor, *given: Any, **attributes: Any) -> Tensor:
    before_opset_10 = [attributes.get(name, []) for name in ("starts", "ends", "axes")]
    starts, ends, axes, *steps = map(_values, given) if given else before_opset_10
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = axes[place] if axes else place, steps[0][place] if steps else 1
        if step < 0:  # torch has no steps back
            x, start, end, step = x.flip(axis), -1 - start, -1 - end, -step
            start, end = start + x.shape[axis] * (start < 0), end + x.shape[axis] * (end < 0)
        x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
    return x


def _split(x: Tensor, given: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 2) -> Sequence[Tensor]:
    sizes: Any = _values(given) or split or -(-x.shape[axis] // num_outputs)
    parts: Sequence[Tensor] = x.split(sizes, axis)
    return parts


def _gather(x: Tensor, index: Any, *, axis: int = 0) -> Tensor:
    if not isinstance(index, Tensor) and index.ndim == 0:  # torch selects without a copy
        return x.select(axis, int(index))
    index = index if isinstance(index, Tensor) else torch.from_numpy(index.astype("int64"))
    if axis == 0 and x.dim() == 2:
        return functional.embedding(index, x)
    return x[(slice(None),) * (axis % x.dim()) + (index,)]


def _pad(x: Tensor, given: Any = None, *_: Any, mode: bytes = b"constant", pads: Any = None, **__: Any) -> Tensor:
    sides = pads or _values(given)
    half = len(sides) // 2
    flat = [sides[place] for axis in reversed(range(half)) for place in (axis, axis + half)]
    if mode == b"constant":
        return functional.pad(x, flat)
    while len(flat) > 2 and not any(flat[-2:]):  # torch reflects the last axes alone
        del flat[-2:]
    return functional.pad(x, flat, "reflect" if mode == b"reflect" else "replicate")


def _depth_to_space(x: Tensor, *, blocksize: int, mode: bytes = b"DCR") -> Tensor:
    if mode == b"DCR":
        x = x.unflatten(1, (blocksize**2, -1)).transpose(1, 2).flatten(1, 2)
    return functional.pixel_shuffle(x, blocksize)


def _resize(x: Tensor, *given: Any, mode: bytes = b"nearest", **_: Any) -> Tensor:
    sizes = _values(given[2]) if len(given) > 2 else []
    if not sizes:
        sizes = [int(side * float(factor)) for side, factor in zip(x.shape, given[1 if len(given) > 1 else 0], strict=True)]
    by_rank = {b"linear": ("linear", "bilinear", "trilinear"), b"cubic": ("", "bicubic", "")}
    return functional.interpolate(x, sizes[2:], mode=by_rank.get(mode, ("nearest",) * 3)[x.dim() - 3])


def _clip(x: Tensor, *bounds: Any, **given: Any) -> Tensor:
    low, high = map(_number, (*bounds, None, None)[:2])
    return x.clamp(given.get("min", low), given.get("max", high))


def _dropout(x: Tensor, *given: Any, ratio: float = 0.5, **_: Any) -> Tensor:
    return functional.dropout(x, _number(given[0] if given and given[0] is not None else ratio), training=False)


def _of_all(call: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *inputs: reduce(call, inputs)


def _without_settings(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """For functions whose attributes change no size."""
    return lambda *inputs, **_: call(*inputs)


_SAME_NAME = (
    "Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Round Selu Celu Sigmoid Sign Sin Sinh Sqrt Tan "
    "Tanh IsNaN IsInf Where"
)
"""Whose functions of torch have these names in small letters."""

OPERATORS: Mapping[str, Callable[..., Any]] = {
    **{name: _without_settings(getattr(torch, name.lower())) for name in _SAME_NAME.split()},
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "Mod": _without_settings(operator.mod),
    "Sum": _of_all(operator.add),
    "Max": _of_all(torch.maximum),
    "Min": _of_all(torch.minimum),
    "Equal": torch.eq,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Not": torch.logical_not,
    "Clip": _clip,
    "LeakyRelu": _without_settings(functional.leaky_relu),
    "Elu": _without_settings(functional.elu),
    "PRelu": lambda x, slope: torch.prelu(x, slope.flatten()),
    "HardSwish": functional.hardswish,
    "HardSigmoid": _without_settings(functional.hardsigmoid),
    "Mish": functional.mish,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "Swish": _without_settings(functional.silu),
    "Gelu": _without_settings(functional.gelu),
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "MatMul": torch.matmul,
    "Gemm": _linear,
    "Dense": _linear,
    "Einsum": lambda *inputs, equation: torch.einsum(equation.decode(), *inputs),
    "BatchNormalization": lambda x, w, b, mean, var, **_: functional.batch_norm(x, mean, var, w, b),
    "InstanceNormalization": lambda x, w, b, **_: functional.instance_norm(x, None, None, w, b),
    "GroupNormalization": lambda x, w, b, num_groups, **_: functional.group_norm(x, num_groups, w, b),
    "LayerNormalization": lambda x, w, b=None, axis=-1, **_: functional.layer_norm(x, x.shape[axis:], w, b),
    "RMSNormalization": lambda x, w, axis=-1, **_: functional.rms_norm(x, x.shape[axis:], w),
    "LRN": lambda x, size, **_: functional.local_response_norm(x, size),
    "Softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "LogSoftmax": lambda x, axis=-1: torch.log_softmax(x, axis),
    "MaxPool": lambda x, **given: _pool(x, True, **given),
    "AveragePool": lambda x, **given: _pool(x, False, **given),
    "GlobalMaxPool": lambda x: _for("adaptive_max_pool", x.dim() - 2)(x, 1),
    "GlobalAveragePool": lambda x: _for("adaptive_avg_pool", x.dim() - 2)(x, 1),
    "ReduceMean": partial(_reduced, torch.mean),
    "ReduceSum": partial(_reduced, torch.sum),
    "ReduceMax": partial(_reduced, torch.amax),
    "ReduceMin": partial(_reduced, torch.amin),
    "ReduceL2": partial(_reduced, torch.linalg.vector_norm),
    "ReduceL1": partial(_reduced, partial(torch.linalg.vector_norm, ord=1)),
    "ArgMax": lambda x, axis=0, keepdims=1, **_: torch.argmax(x, axis, bool(keepdims)),
    "ArgMin": lambda x, axis=0, keepdims=1, **_: torch.argmin(x, axis, bool(keepdims)),
    "TopK": lambda x, k, axis=-1, **_: torch.topk(x, _number(k), axis),
    "CumSum": lambda x, axis, **_: torch.cumsum(x, _number(axis)),
    "Cast": lambda x, to, **_: x.to(DTYPES[to]),
    "CastLike": lambda x, other, **_: x.to(other.dtype),
    "Identity": lambda x: x,
    "Dropout": _dropout,
    "Reshape": _reshape,
    "Flatten": lambda x, axis=1: x.reshape(math.prod(x.shape[:axis]), -1),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": lambda x, perm=None: x.permute(perm or list(range(x.dim()))[::-1]),
    "Expand": lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, tuple(_values(shape)))),
    "Slice": _slice,
    "Split": _split,
    "Concat": lambda *inputs, axis: torch.cat(inputs, axis),
    "Gather": _gather,
    "GatherElements": lambda x, index, axis=0: torch.gather(x, axis, index),
    "GatherND": lambda x, index, **_: x[tuple(index.unbind(-1))],
    "ScatterND": lambda x, index, updates, **_: x.index_put(tuple(index.unbind(-1)), updates),
    "Tile": lambda x, repeats: x.repeat(_values(repeats)),
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": lambda x, blocksize: functional.pixel_unshuffle(x, blocksize),
    "Resize": _resize,
    "Upsample": _resize,
    "ConstantOfShape": lambda shape, **_: torch.zeros(_values(shape)),
    "Trilu": lambda x, k=0, upper=1: torch.triu(x, _number(k)) if upper else torch.tril(x, _number(k)),
    "OneHot": lambda x, depth, *_, **__: functional.one_hot(x, _number(depth)),
}
"""By type; they are called with the node's inputs in order and its attributes by name. ``Dense`` stands for fused nodes."""

READ_BY_VALUE = {
    *("Reshape", "Squeeze", "Unsqueeze", "Expand", "Slice", "Split", "Tile", "Pad", "Resize", "Upsample", "Clip", "Gather"),
    *("TopK", "CumSum", "Trilu", "OneHot", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    *("ConstantOfShape", "Dropout"),
}
"""Whose inputs after the first, or only one, are arrays of numpy: axes and sizes."""
