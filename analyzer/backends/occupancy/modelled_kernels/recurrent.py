"""Recurrent layers, as cuDNN's standard algorithm runs them: assumed, for no public trace has one.

Per layer and direction: one product of all steps with the input's weights, then per step a product with the state's weights and
a kernel for the gates. An input with the batch first is copied into another order before.
"""

from __future__ import annotations

from ..graph.operator_work import RECURRENT
from .elementwise import strided
from .gemm import product
from .operator import Kernel, Operator, Target, ceil_div, per_block


def recurrent(operator: Operator, target: Target) -> list[Kernel]:
    """All kernels of all layers."""
    gates, hidden, steps = RECURRENT[operator.word], operator.side("output_features"), operator.side("rows")
    layers, directions = operator.side("layers"), operator.side("directions")
    batch = ceil_div(operator.written, hidden * directions * steps)
    configuration = target.configurations.kernels["recurrent_gates"]
    moved = operator.width * batch * hidden * (2 * gates + 3)
    one_step = [
        *product(target, target.convolution_arithmetic, batch, gates * hidden, hidden),
        Kernel(configuration, per_block(batch * hidden, configuration.threads), moved),
    ]
    kernels = [strided(operator.read, operator.width, target, 2.0 * operator.width * operator.read)]
    for layer in range(layers):
        inner = operator.side("input_features") if layer == 0 else hidden * directions
        of_the_input = product(target, target.convolution_arithmetic, batch * steps, gates * hidden, inner)
        kernels += [kernel.times(directions) for kernel in of_the_input]
        kernels += [kernel.times(steps * directions) for kernel in one_step]
    return kernels
