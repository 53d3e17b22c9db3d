"""Pooling and resizing: a thread per answer; the mean of whole channels is a reduction."""

from __future__ import annotations

from .operator import Kernel, Operator, Target, per_block
from .reductions import reduce

_PLANE = 49
"""Answers per channel of adaptive pooling to a size of its own: 7 x 7 and 6 x 6 are usual."""


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
