"""The kernels that a forward pass of a graph would launch on a GPU, and one step of them: used where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.answer import Modelled
from epochcast.analyzer.backends.occupancy.configuration import WIDTHS, Sample
from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.operator_work import RECURRENT
from epochcast.analyzer.backends.occupancy.launch.calculator import CONFIGURATION, occupancies
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.modelled_kernels import memory_bound, products
from epochcast.analyzer.backends.occupancy.modelled_kernels.convolution import convolution
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import (
    LaunchConfigurations,
    launch_configurations,
)
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu

LAUNCH_ON_CPU = 5e-6
"""Seconds that PyTorch's eager mode spends on the CPU for one kernel; assumed.

It depends on the CPU and the software: small torchvision networks at batch 12 on an A100 took 35 to 50 µs per modelled kernel
in pytorch-gpu-benchmark's table. With such a CPU steps are longer and NVML utilisation lower than modelled here.
"""

_MANY = 0.05
"""Share of launches with an assumed configuration from which on it is said."""

CONTEXT_BYTES = 600 * 2**20
"""Device memory of the CUDA context and of the workspaces of cuBLAS and cuDNN; assumed."""

_RULES: Mapping[str, Callable[[ModelledOperator, Target], list[Kernel]]] = {
    **dict.fromkeys(("convolution", "transposed_convolution"), convolution),
    **dict.fromkeys(("layer_norm", "rms_norm"), memory_bound.layer_norm),
    **dict.fromkeys(("reduce", "arg_reduce"), memory_bound.reduce),
    **dict.fromkeys(RECURRENT, products.recurrent),
    "attention": products.attention,
    "average_pool": memory_bound.average_pool,
    "concatenate": memory_bound.concatenate,
    "copy": memory_bound.copy,
    "embedding": memory_bound.embedding,
    "group_norm": memory_bound.group_norm,
    "linear": products.linear,
    "matmul": products.matmul,
    "pad": memory_bound.pad,
    "random": memory_bound.random,
    "softmax": memory_bound.softmax,
}
"""By the word of an operator; others launch what an elementwise one would."""

_COLUMNS = ("kernel", *CONFIGURATION, "duration", "count", "operator", "node", "measured_on")


def occupancy_of(
    graph: ComputationGraph, gpu: Gpu, precision: str, configurations: LaunchConfigurations | None = None
) -> Modelled:
    """Model the kernels of one step of a graph and calculate their occupancy; arguments and errors as of :func:`kernels_of`.

    A step takes the GPU's time, or the CPU's where that cannot launch as fast as the GPU runs. Its memory is that of weights,
    activations at their peak, and the context.
    """
    graph = graph.in_inference()
    table = kernels_of(graph, gpu, precision, configurations)
    grid, count = occupancies(table, limits_of(gpu))["grid"], table["count"]
    seconds, launches = float((table["duration"] * count).sum()), int(count.sum())
    step = max(seconds, launches * LAUNCH_ON_CPU)
    memory = WIDTHS[precision] * (graph.weight_elements + graph.peak_activations) + CONTEXT_BYTES
    return Modelled(
        mean=float(np.average(grid, weights=count)),
        time_mean=float(np.average(grid, weights=count * table["duration"])),
        max=float(grid.max()),
        kernels=launches,
        step_s=step,
        nvml_utilisation=seconds / step,
        memory_bytes=memory,
        assumed=float(count[table["measured_on"] == 0].sum()) / launches,
        fits=memory <= gpu.memory,
    )


def notes_on(samples: Sequence[Sample]) -> list[str]:
    """What makes the modelled launches of these samples less sure, a sentence each."""
    notes, assumed = [], 0.0
    for gpu, largest in {sample.gpu: sample for sample in samples}.items():
        launches = kernels_of(largest.graph, gpu, largest.configuration.precision).groupby("measured_on")["count"].sum()
        assumed = max(assumed, launches.get(0.0, 0.0) / launches.sum())
        if others := [str(near) for near in launches.index if near not in (0.0, gpu.compute_capability)]:
            known = gpu.compute_capability in launches
            lack, which = ("show some kernels only", "the others") if known else ("are not known", "kernels")
            notes.append(
                f"public traces of compute capability {gpu.compute_capability} {lack}: on {gpu.name} {which} are taken to be "
                f"launched as on {' and '.join(others)}"
            )
    if unknown := sorted({name for sample in samples for name in sample.graph.unknown}):
        notes.append(f"operators without a word of their own count as plain elementwise ones: {', '.join(unknown)}")
    if assumed > _MANY:
        notes.append(
            f"{100 * assumed:.0f} % of the launches have a configuration that no public trace shows, and that is assumed"
        )
    return notes


def kernels_of(
    graph: ComputationGraph, gpu: Gpu, precision: str, configurations: LaunchConfigurations | None = None
) -> pd.DataFrame:
    """Kernels in the order of the graph in inference, one row per launches alike that follow each other.

    ``configurations`` take the place of those for the GPU.

    Returns the columns of a launch configuration (``launch.calculator.CONFIGURATION``) and:

        kernel        its class, or its name where it cuts its answer into tiles
        duration      seconds of one launch by a roofline
        count         launches
        operator      word of the operator that launches it
        node          its place in the graph
        measured_on   compute capability of the GPUs whose traces show this launch configuration; 0: it is assumed

    Raises:
        InputError: the GPU's compute capability is not known to the occupancy calculation, or nothing is
            launched.
    """
    graph = graph.in_inference()
    if not len(graph):
        raise InputError(f"{graph.name} launches no kernel, so it has no occupancy; give a network that computes something")
    limits = limits_of(gpu)
    target = Target(gpu, limits, precision, configurations or launch_configurations(limits))
    rows = []
    for node, operator in enumerate(_operators(graph, precision)):
        for kernel in _RULES.get(operator.word, memory_bound.elementwise)(operator, target):
            own = kernel.configuration
            sizes = (*kernel.grid, *own.block, own.registers_per_thread, own.shared_memory)
            times = (target.seconds(kernel), kernel.launches)
            rows.append((own.name, *sizes, *times, operator.word, node, 0.0 if own.source else own.architecture))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _operators(graph: ComputationGraph, precision: str) -> Iterator[ModelledOperator]:
    for node, word in enumerate(graph.words):
        sizes = dict(zip(SIZES, graph.sizes[node].tolist(), strict=True))
        yield ModelledOperator(
            word=word,
            hyper=dict(zip(HYPER_PARAMETERS, graph.hyper_parameters[node].tolist(), strict=True)),
            read=sizes["read"],
            written=max(1.0, sizes["written"]),
            weights=sizes["weights"],
            samples=graph.batch,
            sources=tuple(graph.words[source] for source in graph.edges[0, graph.edges[1] == node]),
            width=WIDTHS[precision] if graph.floating[node] else 8,
        )
