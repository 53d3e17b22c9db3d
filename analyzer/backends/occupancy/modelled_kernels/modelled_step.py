"""Occupancy, time and memory of one step by the modelled kernels: what stands in for a measurement where there is none."""

from __future__ import annotations

from dataclasses import dataclass

from .....regressor import Gpu
from ..graph.computation_graph import ComputationGraph
from ..launch.gpu_limits import limits_of
from ..launch.kernel_table import summarise, with_occupancy
from .kernels_of import kernels_of
from .operator import HALF

LAUNCH_ON_CPU = 5e-6
"""Seconds that PyTorch's eager mode spends on the CPU for one kernel; assumed.

It depends on the CPU and the software: small torchvision networks at batch 12 on an A100 took 35 to 50 µs per modelled kernel
in pytorch-gpu-benchmark's table. With such a CPU steps are longer and NVML utilisation lower than modelled here.
"""

CONTEXT_BYTES = 600 * 2**20
"""Device memory of the CUDA context and of the workspaces of cuBLAS and cuDNN; assumed."""


@dataclass(frozen=True)
class ModelledStep:
    """One step of a network as it is thought to run; nothing of it is measured.

    Args:
        mean, time_mean, max: launch-config occupancy, ratios 0..1, as in ``points``.
        kernels: launches.
        step_s: seconds; the GPU's, or the CPU's where that cannot launch as fast as the GPU runs.
        nvml_utilisation: share of the step in which a kernel runs.
        memory_bytes: weights, activations at their peak, and the context.
        assumed: share of the launches whose configuration no trace shows.
    """

    mean: float
    time_mean: float
    max: float
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
    launches = int(table["count"].sum())
    busy = float((table["duration"] * table["count"]).sum())
    step = max(busy, launches * LAUNCH_ON_CPU)
    width = 2 if precision in HALF else 4
    return ModelledStep(
        mean=summary.grid.mean,
        time_mean=summary.grid.time_mean,
        max=summary.grid.max,
        kernels=launches,
        step_s=step,
        nvml_utilisation=busy / step,
        memory_bytes=width * (graph.weight_elements + graph.peak_activations) + CONTEXT_BYTES,
        assumed=float(table.loc[table["measured_on"] == 0, "count"].sum()) / launches,
    )
