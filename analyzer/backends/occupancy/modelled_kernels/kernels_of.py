"""The kernels that a forward pass of a graph would launch on a GPU, as a kernel table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from .....regressor import Gpu
from ....errors import InputError
from ..graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph
from ..graph.operator_work import RECURRENT
from ..graph.vocabulary import ELEMENTWISE
from ..launch.gpu_limits import limits_of
from ..launch.kernel_table import kernel_table
from . import attention, convolution, elementwise, gemm, recurrent, reductions
from .launch_configurations import LaunchConfigurations, launch_configurations
from .operator import HALF, Kernel, Operator, Target

PRECISIONS = ("fp32", *HALF)

_INTEGER_BYTES = 8

_Launches = Callable[[Operator, Target], list[Kernel]]

_RULES: Mapping[str, _Launches] = {
    **dict.fromkeys(ELEMENTWISE, elementwise.elementwise),
    **dict.fromkeys(RECURRENT, recurrent.recurrent),
    "convolution": convolution.convolution,
    "transposed_convolution": convolution.convolution,
    "linear": gemm.linear,
    "matmul": gemm.matmul,
    "attention": attention.attention,
    "layer_norm": reductions.layer_norm,
    "rms_norm": reductions.layer_norm,
    "batch_norm": reductions.batch_norm,
    "group_norm": reductions.group_norm,
    "softmax": reductions.softmax,
    "reduce": reductions.reduce,
    "arg_reduce": reductions.reduce,
    "scan": reductions.scan,
    "max_pool": reductions.max_pool,
    "average_pool": reductions.average_pool,
    "resize": reductions.resize,
    "embedding": elementwise.embedding,
    "concatenate": elementwise.concatenate,
    "copy": elementwise.copy,
    "pad": elementwise.pad,
    "index": elementwise.index,
    "scatter": elementwise.scatter,
    "create": elementwise.create,
    "random": elementwise.random,
}
"""By the word of an operator; others launch what an elementwise one would."""


def kernels_of(
    graph: ComputationGraph, gpu: Gpu, precision: str, configurations: LaunchConfigurations | None = None
) -> pd.DataFrame:
    """Kernels in the order of the graph in inference, one row per launches alike that follow each other.

    ``configurations`` take the place of those for the GPU.

    Returns the columns of ``launch.kernel_table`` (kernel: its class, or its name where it cuts its answer into tiles;
    duration: seconds by a roofline) and:

        operator      word of the operator that launches it
        node          its place in the graph
        measured_on   compute capability of the GPUs whose traces show this launch configuration; 0: it is assumed

    Raises:
        InputError: no such precision, the GPU's compute capability is not known to the occupancy calculation, or nothing is
            launched.
    """
    graph = graph.in_inference()
    if not len(graph):
        raise InputError(f"{graph.name} launches no kernel, so it has no occupancy; give a network that computes something")
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known; give one of {', '.join(PRECISIONS)}")
    limits = limits_of(gpu)
    target = Target(gpu, limits, precision, configurations or launch_configurations(limits))
    found = [
        (node, operator.word, kernel)
        for node, operator in enumerate(_operators(graph, precision))
        for kernel in _RULES.get(operator.word, elementwise.elementwise)(operator, target)
    ]
    kernels = [kernel for _, _, kernel in found]
    table = kernel_table(
        kernel=[one.configuration.name for one in kernels],
        gpu=[gpu.name] * len(kernels),
        **{f"grid_{axis}": [one.grid[place] for one in kernels] for place, axis in enumerate("xyz")},
        **{f"block_{axis}": [one.configuration.block[place] for one in kernels] for place, axis in enumerate("xyz")},
        registers_per_thread=[one.configuration.registers_per_thread for one in kernels],
        shared_memory=[one.configuration.shared_memory for one in kernels],
        duration=[_seconds(one, target) for one in kernels],
        count=[one.launches for one in kernels],
    )
    return table.assign(
        operator=[word for _, word, _ in found],
        node=[node for node, _, _ in found],
        measured_on=[one.configuration.measured_on for one in kernels],
    )


def _operators(graph: ComputationGraph, precision: str) -> Iterator[Operator]:
    sources: list[list[str]] = [[] for _ in graph.words]
    for source, node in graph.edges.T.tolist():
        sources[node].append(graph.words[source])
    width = 2 if precision in HALF else 4
    for node, word in enumerate(graph.words):
        hyper = dict(zip(HYPER_PARAMETERS, graph.hyper_parameters[node].tolist(), strict=True))
        sizes = dict(zip(SIZES, graph.sizes[node].tolist(), strict=True))
        floating = bool(graph.floating[node])
        yield Operator(
            word=word,
            hyper=hyper,
            read=sizes["read"],
            written=max(1.0, sizes["written"]),
            weights=sizes["weights"],
            samples=graph.batch,
            sources=tuple(sources[node]),
            width=width if floating else _INTEGER_BYTES,
        )


def _seconds(kernel: Kernel, target: Target) -> float:
    """The arithmetic or the memory, whichever takes longer, and the shortest kernel; no less than any recorded launch of it."""
    configurations = target.configurations
    strided = kernel.configuration is configurations.kernels["elementwise_strided"]
    reached = configurations.strided_bandwidth_share if strided else configurations.bandwidth_share
    needed = configurations.shortest_kernel + max(kernel.computing, kernel.moved / (target.gpu.memory_bandwidth * reached))
    return max(kernel.configuration.shortest, needed)
