"""How full and how busy a forward pass keeps a GPU's SMs, where no training was measured: from sizes, a roofline, and launches.

There are two kinds of kernels: those that cut an answer into tiles (matrix products, convolutions, attention), of which an SM's
registers hold few, and those with a thread for every four elements. The constants were chosen among a few on the counters of
``lab/speed/occupancy/modelled.py``, which measures how wide the range must be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.configuration import WIDTHS
from epochcast.analyzer.backends.occupancy.graph.computation_graph import PRODUCTS, RECURRENT, ComputationGraph
from epochcast.analyzer.backends.occupancy.sm_limits import CONFIGURATION, grid_occupancy, limits_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu

LAUNCH_ON_CPU = 30e-6
"""Seconds that PyTorch's eager mode spends on the CPU for a kernel.

28 to 36 us on an H200 machine (``data/h200/occupancy_bench``: step time over launches, where the GPU waits), 35 to 50 us in
pytorch-gpu-benchmark's table (small torchvision networks at batch 12 on an A100).
"""

_SHORTEST = 4e-6
"""Seconds of a kernel that does next to nothing; 1.5 to 3 us in public traces, to which the gap before it comes."""

_PEAK_SHARE, _BANDWIDTH_SHARE = 0.6, 0.85

_LAUNCHES_OF_A_CONVOLUTION = 1.5
"""A bias, or the image turned round, is another kernel where there is one."""

_TILE = (64 * 64, (128, 1, 1), 168, 32 * 1024)
_FLAT = (4 * 128, (128, 1, 1), 32, 0)
"""Elements answered by a block, its threads, registers of a thread, bytes of shared memory: as most kernels of public traces of
PyTorch on V100, A100 and H100 have them."""


class SmUse(NamedTuple):
    """Of one step as it is modelled: SM occupancy and SM activity, 0..1."""

    occupancy: float
    active: float


def model_sm_use(graph: ComputationGraph, gpu: Gpu, precision: str) -> SmUse:
    """SM occupancy and activity of one forward pass.

    SMs are as full as the launches leave them, by time, and idle while the CPU cannot launch as fast as the GPU runs.

    Raises:
        InputError: nothing is launched, or the limits of the GPU's SMs are not known.
    """
    graph, limits = graph.in_inference(), limits_of(gpu)
    if not len(graph):
        raise InputError(f"{graph.name} launches no kernel, so it has no occupancy; give a network that computes something")
    words, written = np.array(graph.words), np.maximum(graph.column("written"), 1)
    by_cudnn = np.isin(words, ["convolution", "transposed_convolution", *RECURRENT])
    depthwise = (graph.column("groups") > 1) & (graph.column("groups") == graph.column("input_features"))
    tiled = np.isin(words, [*PRODUCTS, *RECURRENT, "attention"]) & ~depthwise

    plain = gpu.effective_flops
    if precision == "fp32":  # PyTorch lets cuDNN use TensorFloat-32, and keeps it off for other products by default
        peak = np.where(by_cudnn, gpu.tf32_tensor_flops or plain, plain)
    else:
        peak = np.full(len(graph), gpu.fp16_tensor_flops or gpu.bf16_tensor_flops or gpu.fp16_flops or plain)
    widths = np.where(graph.floating, WIDTHS[precision], 8)
    moving = widths * (graph.column("read") + written + graph.column("weights")) / (_BANDWIDTH_SHARE * gpu.memory_bandwidth)
    computing = np.where(tiled, graph.column("flops"), 0) / (_PEAK_SHARE * peak)

    # A recurrent layer has a product and a kernel for the gates in each step.
    steps = np.prod([np.maximum(graph.column(name), 1) for name in ("rows", "layers", "directions")], axis=0)
    launches = np.where(np.isin(words, [*RECURRENT]), 2 * steps, np.where(by_cudnn & tiled, _LAUNCHES_OF_A_CONVOLUTION, 1))
    seconds = _SHORTEST * launches + np.maximum(computing, moving)

    kinds = [_TILE if own else _FLAT for own in tiled]
    rows = [
        (np.ceil(elements / each), 1, 1, *block, registers, shared)
        for elements, (each, block, registers, shared) in zip(written, kinds, strict=True)
    ]
    full = grid_occupancy(pd.DataFrame(rows, columns=CONFIGURATION), limits)
    active = min(1.0, float(seconds.sum() / (launches.sum() * LAUNCH_ON_CPU)))
    return SmUse(float(np.average(full, weights=seconds)) * active, active)
