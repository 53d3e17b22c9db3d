"""Operators whose every answer comes from one element of each input, and those that move or make elements.

PyTorch's rules: blocks of 128 threads. A thread takes four elements that lie side by side; of strided and broadcast ones four
of 2 bytes, two of wider ones.
"""

from __future__ import annotations

from .operator import Kernel, Operator, Target, ceil_div, per_block

_THREADS = 128
_VECTOR = 4
_UNROLLED = 4
_MOST_BLOCKS_PER_SM = 8
_FEW_ROWS = 16


def elementwise(operator: Operator, target: Target) -> list[Kernel]:
    """One kernel."""
    if operator.hyper["strided"]:
        return [strided(operator.written, operator.width, target, operator.moved)]
    return [contiguous(operator.written, target, operator.moved)]


def contiguous(elements: float, target: Target, moved: float) -> Kernel:
    """Over elements that lie side by side; ``moved`` in bytes."""
    return Kernel(target.configurations.kernels["elementwise"], per_block(elements, _THREADS * _VECTOR), moved)


def strided(elements: float, width: int, target: Target, moved: float) -> Kernel:
    """Over elements of ``width`` bytes that do not."""
    unrolled = 2 if width >= 4 else 4
    return Kernel(target.configurations.kernels["elementwise_strided"], per_block(elements, _THREADS * unrolled), moved)


def copy(operator: Operator, target: Target) -> list[Kernel]:
    """Into another order, or from one type to another.

    The answer of PyTorch's attention kernels lies as the copy after it would have it: none is launched.
    """
    if operator.sources == ("attention",):
        return []
    moved = 2.0 * operator.width * operator.written
    if operator.hyper["strided"]:
        return [strided(operator.written, operator.width, target, moved)]
    configuration = target.configurations.kernels["elementwise_cast"]
    return [Kernel(configuration, per_block(operator.written, _THREADS * _UNROLLED), moved)]


def concatenate(operator: Operator, target: Target) -> list[Kernel]:
    """Two blocks per SM for each input."""
    grid = (2 * target.gpu.sm_count, max(2, len(operator.sources)), 1)
    return [Kernel(target.configurations.kernels["concatenate"], grid, 2.0 * operator.width * operator.written)]


def embedding(operator: Operator, target: Target) -> list[Kernel]:
    """Rows of a table: of few a thread per column, of many a thread per element in as many blocks as fit."""
    features = operator.side("output_features")
    rows = ceil_div(operator.written, features)
    most = _MOST_BLOCKS_PER_SM * target.gpu.sm_count
    few = rows <= _FEW_ROWS
    blocks = min(ceil_div(features if few else operator.written, _THREADS), most)
    configuration = target.configurations.kernels["index_select_small" if few else "index_select_large"]
    return [Kernel(configuration, (blocks, 1, 1), 2.0 * operator.width * operator.written)]


def index(operator: Operator, target: Target) -> list[Kernel]:
    """A thread for four answers."""
    return _of_four("index", operator, target)


def scatter(operator: Operator, target: Target) -> list[Kernel]:
    """A thread for four elements."""
    return _of_four("scatter_gather", operator, target)


def pad(operator: Operator, target: Target) -> list[Kernel]:
    """Everything is filled first, then the middle is copied into it."""
    filled = contiguous(operator.written, target, operator.width * operator.written)
    return [filled, strided(operator.read, operator.width, target, 2.0 * operator.width * operator.read)]


def create(operator: Operator, target: Target) -> list[Kernel]:
    """Every element written once."""
    return [contiguous(operator.written, target, operator.width * operator.written)]


def random(operator: Operator, target: Target) -> list[Kernel]:
    """A thread for four numbers, in as many blocks as the SMs hold at once."""
    configuration = target.configurations.kernels["random"]
    resident = target.limits.max_warps * 32 // configuration.threads * target.gpu.sm_count
    blocks = min(ceil_div(operator.written, 4 * configuration.threads), resident)
    return [Kernel(configuration, (blocks, 1, 1), operator.width * operator.written)]


def _of_four(name: str, operator: Operator, target: Target) -> list[Kernel]:
    grid = per_block(operator.written, _THREADS * _UNROLLED)
    return [Kernel(target.configurations.kernels[name], grid, 2.0 * operator.width * operator.written)]
