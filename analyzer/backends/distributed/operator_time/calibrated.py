"""Operator times by a calibrated roofline: the default where nothing was measured on the GPU itself.

A matrix product of (b, M, N, K) takes ``max(2bMNK / (P e u K/(K + K0)), bytes / (BW eb))``, M and N padded to whole tiles: P
the peak in its dtype, u = w/(w + T0) the share of whole waves, w = ⌈M/128⌉⌈N/128⌉b / SMs. Everything else is bytes over
bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.graph import Operator
from epochcast.analyzer.backends.distributed.precision import Precision, peak_flops
from epochcast.regressor import Gpu

_TILE = 128
_NARROW = 64
_SOFT = 6
"""Power of the norm that represents a maximum with a rounded corner."""


@dataclass(frozen=True)
class OperatorWork:
    """What operators ask of a device, one row each: arrays of shape (n,), without any coefficient."""

    flops: NDArray[np.float64]
    bytes: NDArray[np.float64]
    tiles: NDArray[np.float64]
    depth: NDArray[np.float64]
    peak: NDArray[np.float64]


def products_of(operator: Operator) -> tuple[int, int, int, int]:
    """The matrix product ``(batch, m, n, k)`` that an operator is or amounts to; attention is its scores' product.

    A convolution is an implicit product: pixels x output channels x (input channels x kernel); its backward pass has two such.
    """
    if operator.kind == "matmul":
        return operator.gemm
    if operator.kind == "attention":
        query, key = operator.inputs[:2] if len(operator.inputs) < 6 else operator.inputs[1:3]
        return query.shape[0] * query.shape[1], query.shape[2], key.shape[2], query.shape[3]
    backward = operator.name.startswith("aten.convolution_backward")
    weight = operator.inputs[2 if backward else 1].shape
    image = operator.inputs[0] if backward else operator.outputs[0]
    pixels = image.shape[0] * int(np.prod(image.shape[2:]))
    return 1, pixels, weight[0], int(np.prod(weight[1:]))


def work_of(operators: Sequence[Operator], gpu: Gpu, precision: Precision, fused: bool) -> OperatorWork:
    """Collect the work of operators on a GPU; raises InputError if it lacks one of their dtypes."""
    flops, sizes, tiles, depth, peak = ([0.0] * len(operators) for _ in range(5))
    for index, operator in enumerate(operators):
        if operator.kind == "communication":
            continue
        sizes[index] = (operator.fused_bytes if fused else operator.bytes) + _read_again(operator)
        tiles[index], depth[index], peak[index] = 1.0, 1.0, 1.0
        if operator.flops and not _is_depthwise(operator):
            batch, m, n, k = products_of(operator)
            flops[index] = operator.flops * _padding(m) * _padding(n)
            tiles[index] = _waves(batch, m, n, gpu.sm_count)
            # A kernel of attention streams over the keys, which are its depth as K is a product's.
            depth[index] = n if operator.kind == "attention" else k
            peak[index] = peak_flops(gpu, operator.dtype, precision.tf32)
    return OperatorWork(*(np.array(column, dtype=float) for column in (flops, sizes, tiles, depth, peak)))


_TWO_PASSES = {
    "aten.native_layer_norm_backward.default": 2,
    "aten.native_batch_norm.default": 1,
    "aten.native_batch_norm_backward.default": 2,
}
"""Operators whose first inputs two kernels read: torch sums up for scale and shift (batch norm: for its statistics) apart."""


def _read_again(operator: Operator) -> float:
    return float(sum(tensor.bytes for tensor in operator.inputs[: _TWO_PASSES.get(operator.name, 0)]))


def _is_depthwise(operator: Operator) -> bool:
    """Whether it is a convolution with a kernel of its own for each channel: it adds up so little that memory bounds it."""
    if not operator.name.startswith("aten.convolution"):
        return False
    weight = operator.inputs[2 if operator.name.startswith("aten.convolution_backward") else 1].shape
    return weight[1] == 1 < weight[0]


def _waves(batch: int, m: int, n: int, sm_count: int) -> float:
    """Tiles per processor; libraries fill a processor that large tiles would leave empty with narrow ones, up to one each."""
    wide = -(-m // _TILE) * -(-n // _TILE) * batch / sm_count
    narrow = -(-m // _NARROW) * -(-n // _NARROW) * batch / sm_count
    return max(wide, min(1.0, narrow))


def _padding(size: int) -> float:
    """How much larger a side of a product is in whole tiles, the narrowest that libraries choose for it."""
    return -(-size // _NARROW) * _NARROW / size


def seconds_of(work: OperatorWork, gpu: Gpu, coefficients: Coefficients) -> NDArray[np.float64]:
    """Seconds of each operator, shape (n,), without the time of launching."""
    c = coefficients
    product = work.flops > 0
    wave = work.tiles / (work.tiles + c.gemm_tail)
    speed = np.where(product, work.peak * c.gemm * wave * work.depth / (work.depth + c.gemm_depth), 1.0)
    bandwidth = gpu.memory_bandwidth * np.where(product, c.gemm_bandwidth, c.bandwidth)
    answer: NDArray[np.float64] = np.maximum(work.flops / speed, work.bytes / bandwidth)
    return answer


@dataclass(frozen=True)
class CalibratedTimes:
    """Operator times of a GPU of the catalogue under fitted coefficients."""

    gpu: Gpu
    precision: Precision
    coefficients: Coefficients
    fused: bool = False
    known: dict[int, tuple[Sequence[Operator], OperatorWork]] = field(default_factory=dict, compare=False, repr=False)
    """Work of operators from earlier requests, by the identity of their sequence, which it keeps alive: fits ask often."""

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,), run one after another as given.

        Where their kernels are shorter than their launches, the host is what is waited for: all are stretched alike.

        Raises:
            InputError: the GPU lacks a dtype.
        """
        if id(operators) not in self.known:
            self.known[id(operators)] = operators, work_of(operators, self.gpu, self.precision, self.fused)
        work = self.known[id(operators)][1]
        seconds = seconds_of(work, self.gpu, self.coefficients)
        total, launches = float(seconds.sum()), float((work.bytes > 0).sum()) * self.coefficients.launch
        return seconds * ((total**_SOFT + launches**_SOFT) ** (1 / _SOFT) / total) if total else seconds
