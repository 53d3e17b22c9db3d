"""Normalisations."""

from __future__ import annotations

from .elementwise import strided
from .operator import Kernel, Operator, Target, ceil_div, per_block

_ELEMENTS = 4
"""Of a thread of cuDNN's batch normalisation; assumed."""


def of_rows(operator: Operator, target: Target) -> list[Kernel]:
    """Layer and root-mean-square normalisation: a block per row."""
    rows = ceil_div(operator.written, operator.side("reduced"))
    return [Kernel(target.configurations.kernels["layer_norm"], (rows, 1, 1), operator.moved)]


def of_channels(operator: Operator, target: Target) -> list[Kernel]:
    """Batch normalisation with known statistics: cuDNN's elementwise kernel."""
    configuration = target.configurations.kernels["batch_norm"]
    return [Kernel(configuration, per_block(operator.written, configuration.threads * _ELEMENTS), operator.moved)]


def of_groups(operator: Operator, target: Target) -> list[Kernel]:
    """Moments, a block per group and sample; then everything scaled and shifted."""
    groups = ceil_div(operator.written, operator.side("reduced"))
    moments = Kernel(target.configurations.kernels["group_norm_moments"], (groups, 1, 1), operator.width * operator.read)
    return [moments, strided(operator.written, operator.width, target, operator.moved)]
