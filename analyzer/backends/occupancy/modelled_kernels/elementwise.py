"""Operators whose every answer comes from one element of each input.

PyTorch's rules: blocks of 128 threads. A thread takes four elements that lie side by side; of strided and broadcast ones four
of 2 bytes, two of wider ones.
"""

from __future__ import annotations

from .operator import Kernel, Operator, Target, per_block

_THREADS = 128
_VECTOR = 4


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
