"""The kernels that a forward pass of a graph would launch on a GPU, and how full and how busy they keep its SMs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.graph.computation_graph import RECURRENT, ComputationGraph
from epochcast.analyzer.backends.occupancy.modelled_kernels import memory_bound, products
from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import CONFIGURATION, grid_occupancy
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target
from epochcast.analyzer.errors import InputError

LAUNCH_ON_CPU = 30e-6
"""Seconds that PyTorch's eager mode spends on the CPU for a kernel that is modelled.

28 to 36 us on an H200 machine (``data/h200/occupancy_bench``: step time over launches, where the GPU waits), 35 to 50 us in
pytorch-gpu-benchmark's table (small torchvision networks at batch 12 on an A100).
"""

_RULES: Mapping[str, Callable[[ModelledOperator, Target], list[Kernel]]] = {
    **dict.fromkeys(("convolution", "transposed_convolution"), products.convolution),
    **dict.fromkeys(("reduce", "arg_reduce"), memory_bound.reduce),
    **dict.fromkeys(RECURRENT, products.recurrent),
    "attention": products.attention,
    "copy": memory_bound.copy,
    "linear": products.linear,
    "matmul": products.matmul,
    "softmax": memory_bound.softmax,
}
"""By the word of an operator; others launch what an elementwise one would."""

_COLUMNS = ("kernel", *CONFIGURATION, "duration", "count", "operator")


class SmUse(NamedTuple):
    """Of one step as it is modelled: SM occupancy and SM activity, 0..1."""

    occupancy: float
    active: float


def model_sm_use(graph: ComputationGraph, target: Target) -> SmUse:
    """SM occupancy and activity of one step of a graph; errors as of :func:`model_launches`.

    SMs are as full as the launches leave them, by time, and idle while the CPU cannot launch as fast as the GPU runs.
    """
    table = model_launches(graph, target)
    grid, count, seconds = grid_occupancy(table, target.limits), table["count"], table["count"] * table["duration"]
    active = min(1.0, float(seconds.sum()) / (int(count.sum()) * LAUNCH_ON_CPU))
    return SmUse(float(np.average(grid, weights=seconds)) * active, active)


def model_launches(graph: ComputationGraph, target: Target) -> pd.DataFrame:
    """Kernels in the order of the graph in inference, one row per launches alike that follow each other.

    Returns the columns of a launch configuration (``occupancy.CONFIGURATION``) and:

        kernel      its class, or its name where it cuts its answer into tiles
        duration    seconds of one launch by a roofline
        count       launches
        operator    word of the operator that launches it

    Raises:
        InputError: the GPU's compute capability is not known to the occupancy calculation, or nothing is launched.
    """
    graph = graph.in_inference()
    if not len(graph):
        raise InputError(f"{graph.name} launches no kernel, so it has no occupancy; give a network that computes something")
    rows = []
    for operator in ModelledOperator.of(graph, target.precision):
        for kernel in _RULES.get(operator.word, memory_bound.elementwise)(operator, target):
            own = kernel.configuration
            sizes = (*kernel.grid, *own.block, own.registers_per_thread, own.shared_memory)
            rows.append((own.name, *sizes, target.seconds(kernel), kernel.launches, operator.word))
    return pd.DataFrame(rows, columns=list(_COLUMNS))
