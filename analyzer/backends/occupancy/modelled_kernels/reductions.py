"""What makes one element of many: sums, means, extremes, running sums; softmax, normalisations, pooling and resizing."""

from __future__ import annotations

from dataclasses import replace

from .elementwise import strided
from .operator import Kernel, Operator, Target, ceil_div, per_block

_WARP = 32
_WARP_SOFTMAX_MOST = 1024
_WARP_SOFTMAX_BYTES = 4096
_SMALL_ROW = 128
_REDUCE_THREADS = 512
_VECTOR = 4
_VECTORISED_FROM = 128
_VALUES_OF_A_THREAD = 16
_MOST_BLOCKS_OF_AN_ANSWER = 128
_SCAN_ITEMS = 15
_NORM_ELEMENTS = 4
"""Of a thread of cuDNN's batch normalisation; assumed."""

_PLANE = 49
"""Answers per channel of adaptive pooling to a size of its own: 7 x 7 and 6 x 6 are usual."""


def softmax(operator: Operator, target: Target) -> list[Kernel]:
    """Rows of up to 1024 elements: a warp for one or two of them; longer ones: a block for each."""
    length = operator.side("reduced")
    rows = ceil_div(operator.written, length)
    kernels = target.configurations.kernels
    if length > _WARP_SOFTMAX_MOST or length * operator.width > _WARP_SOFTMAX_BYTES:
        return [Kernel(kernels["softmax_of_a_block"], (rows, 1, 1), operator.moved)]
    padded = 1 << (length - 1).bit_length()
    seen = sorted(int(name.removeprefix("softmax_of_a_warp_")) for name in kernels if name.startswith("softmax_of_a_warp_"))
    size = next((one for one in seen if one >= padded), seen[-1])
    lanes = min(padded, _WARP)
    warps = 128 // lanes
    configuration = replace(kernels[f"softmax_of_a_warp_{size}"], block=(lanes, warps, 1))
    at_once = warps * (2 if padded <= _SMALL_ROW else 1)
    return [Kernel(configuration, (ceil_div(rows, at_once), 1, 1), operator.moved)]


def reduce(operator: Operator, target: Target) -> list[Kernel]:
    """PyTorch's reduction over elements side by side: threads along the row as far as it goes, further rows beside it.

    Where there are few answers of many elements each several blocks work on one.
    """
    length, answers = max(1, round(operator.read / max(1.0, operator.written))), ceil_div(operator.written, 1)
    vector = _VECTOR if answers == 1 and length > _VECTORISED_FROM else 1
    along = _power_below(min(max(1, length // vector), _REDUCE_THREADS))
    beside = _power_below(min(answers, _REDUCE_THREADS))
    lanes = min(along, _WARP)
    high = min(beside, _REDUCE_THREADS // lanes)
    lanes = min(along, _REDUCE_THREADS // high)
    blocks = ceil_div(answers, high)
    of_a_thread = length / lanes
    parts = 1
    if high == 1 or of_a_thread > 256:
        most = ceil_div(of_a_thread, _VALUES_OF_A_THREAD)
        wanted = ceil_div(target.gpu.sm_count * target.limits.max_warps * _WARP / (lanes * high), blocks)
        parts = max(1, min(most, wanted, _MOST_BLOCKS_OF_AN_ANSWER))
    configuration = replace(target.configurations.kernels["reduce_along_rows"], block=(lanes, high, 1))
    return [Kernel(configuration, (blocks, parts, 1), operator.moved)]


def scan(operator: Operator, target: Target) -> list[Kernel]:
    """A running sum; its elements per thread are assumed."""
    configuration = target.configurations.kernels["scan"]
    return [Kernel(configuration, (ceil_div(operator.written, _SCAN_ITEMS * configuration.threads), 1, 1), operator.moved)]


def _power_below(value: int) -> int:
    return 1 << (value.bit_length() - 1)


def layer_norm(operator: Operator, target: Target) -> list[Kernel]:
    """Layer and root-mean-square normalisation: a block per row."""
    rows = ceil_div(operator.written, operator.side("reduced"))
    return [Kernel(target.configurations.kernels["layer_norm"], (rows, 1, 1), operator.moved)]


def batch_norm(operator: Operator, target: Target) -> list[Kernel]:
    """Batch normalisation with known statistics: cuDNN's elementwise kernel."""
    configuration = target.configurations.kernels["batch_norm"]
    return [Kernel(configuration, per_block(operator.written, configuration.threads * _NORM_ELEMENTS), operator.moved)]


def group_norm(operator: Operator, target: Target) -> list[Kernel]:
    """Moments, a block per group and sample; then everything scaled and shifted."""
    groups = ceil_div(operator.written, operator.side("reduced"))
    moments = Kernel(target.configurations.kernels["group_norm_moments"], (groups, 1, 1), operator.width * operator.read)
    return [moments, strided(operator.written, operator.width, target, operator.moved)]


def max_pool(operator: Operator, target: Target) -> list[Kernel]:
    """One kernel."""
    return _of_a_thread("max_pool", operator, target)


def average_pool(operator: Operator, target: Target) -> list[Kernel]:
    """Windows side by side of three and more pixels are taken as whole channels, windows of one as adaptive pooling."""
    window, stride = operator.side("kernel_height"), operator.side("stride")
    if window == stride == 1:
        planes = max(1, round(operator.written / _PLANE))
        grid = (planes, max(1, 16 // planes), 1)
        return [Kernel(target.configurations.kernels["adaptive_average_pool"], grid, operator.moved)]
    if window == stride >= 3:
        return reduce(operator, target)
    return _of_a_thread("average_pool", operator, target)


def resize(operator: Operator, target: Target) -> list[Kernel]:
    """One kernel."""
    return _of_a_thread("resize", operator, target)


def _of_a_thread(name: str, operator: Operator, target: Target) -> list[Kernel]:
    configuration = target.configurations.kernels[name]
    return [Kernel(configuration, per_block(operator.written, configuration.threads), operator.moved)]
