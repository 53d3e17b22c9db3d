"""Occupancy, time and memory of one step by the modelled kernels: what stands in for a measurement where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from .....regressor import Gpu
from ..graph.computation_graph import ComputationGraph
from ..launch.gpu_limits import limits_of
from ..launch.kernel_table import Aggregate, summarise, with_occupancy
from .kernels_of import kernels_of
from .operator import WIDTHS

LAUNCH_ON_CPU = 5e-6
"""Seconds that PyTorch's eager mode spends on the CPU for one kernel; assumed.

It depends on the CPU and the software: small torchvision networks at batch 12 on an A100 took 35 to 50 µs per modelled kernel
in pytorch-gpu-benchmark's table. With such a CPU steps are longer and NVML utilisation lower than modelled here.
"""

CONTEXT_BYTES = 600 * 2**20
"""Device memory of the CUDA context and of the workspaces of cuBLAS and cuDNN; assumed."""


@dataclass(frozen=True)
class ModelledStep(Aggregate):
    """One step of a network as it is thought to run, with its launch-config occupancy; nothing of it is measured.

    Args:
        kernels: launches.
        step_s: seconds; the GPU's, or the CPU's where that cannot launch as fast as the GPU runs.
        nvml_utilisation: share of the step in which a kernel runs.
        memory_bytes: weights, activations at their peak, and the context.
        assumed: share of the launches whose configuration no trace shows.
    """

    kernels: int
    step_s: float
    nvml_utilisation: float
    memory_bytes: float
    assumed: float


def occupancy_of(graph: ComputationGraph, gpu: Gpu, precision: str) -> ModelledStep:
    """Model the kernels of one step of a graph and calculate their occupancy.

    Raises:
        InputError: as of :func:`kernels_of`.
    """
    graph = graph.in_inference()
    table = kernels_of(graph, gpu, precision)
    summary = summarise(with_occupancy(table, {gpu.name: limits_of(gpu)}))
    step = max(summary.seconds, summary.launches * LAUNCH_ON_CPU)
    return ModelledStep(
        **vars(summary.grid),
        kernels=summary.launches,
        step_s=step,
        nvml_utilisation=summary.seconds / step,
        memory_bytes=WIDTHS[precision] * (graph.weight_elements + graph.peak_activations) + CONTEXT_BYTES,
        assumed=float(table.loc[table["measured_on"] == 0, "count"].sum()) / summary.launches,
    )
