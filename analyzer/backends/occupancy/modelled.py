"""How full and how busy a forward pass keeps a GPU's SMs, where no training was measured: from sizes, a roofline, and
launches.

There are two kinds of kernels: those that cut an answer into tiles (matrix products, convolutions, attention), of which an
SM's registers hold few, and those with a thread for every four elements. The constants were chosen among a few on the counters
of ``lab/speed/occupancy/modelled.py``, which measures how wide the range must be.

How full of warps a launch keeps the SMs is CUDA's occupancy calculation. Figures of a GPU come from the catalogue
(``regressor/gpus.toml``, or a user's own file) or from a profile; what neither has follows from its compute capability
(``src/epochcast/architectures.toml``). Rules, allocation units and partitions: CUDA C++ Programming Guide and
``cuda_occupancy.h`` of the toolkit. Results are upper bounds from the launch configuration alone: no counter was read. What
they leave out: clusters of blocks and named barriers (compute capability 9.0 on), and a smaller shared memory carve-out than
the largest that the launch may get.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.graph.computation_graph import PRODUCTS, RECURRENT, ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import WIDTHS
from epochcast.analyzer.errors import InputError
from epochcast.architectures import architectures
from epochcast.regressor import Gpu

CONFIGURATION = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread", "shared_memory")
"""Columns of a launch configuration; whole numbers, shared memory in bytes per block, static and dynamic together."""

WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255

REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this, from compute capability 3.0 on."""

REGISTER_CHECK_PARTITIONS = 4
"""A launch is refused if its warps, rounded up to this, need more registers than a block may have, on every architecture."""


@dataclass(frozen=True)
class GpuLimits:
    """What one GPU holds; bytes, and per SM unless said.

    Attributes:
        name: what answers call the GPU.
        compute_capability: e.g. 9.0.
        sm_count: streaming multiprocessors of the GPU.
        max_warps: resident warps.
        max_blocks: resident blocks.
        shared_memory: bytes, with the largest carve-out from the L1 cache.
        shared_memory_per_block: bytes that a block may request (opt-in).
        registers: 32-bit registers.
        registers_per_block: that one block may have.
        register_partitions: parts that the registers are divided into; a warp's lie in one.
        reserved_per_block: bytes that the driver adds to each block's shared memory.
        shared_memory_unit: bytes; what a block gets is a multiple.
    """

    name: str
    compute_capability: float
    sm_count: int
    max_warps: int
    max_blocks: int
    shared_memory: int
    shared_memory_per_block: int
    registers: int
    registers_per_block: int
    register_partitions: int
    reserved_per_block: int
    shared_memory_unit: int


def limits_of(gpu: Gpu) -> GpuLimits:
    """The limits of a GPU of the catalogue.

    Raises:
        InputError: it is another vendor's, or its compute capability is not in the table.
    """
    if gpu.vendor != "NVIDIA":
        raise InputError(f"GPU {gpu.name!r} is made by {gpu.vendor}; occupancy is calculated for NVIDIA's GPUs only")
    return limits_by_capability(
        gpu.name,
        gpu.compute_capability,
        gpu.sm_count,
        max_warps=gpu.max_warps_per_sm or (gpu.max_threads_per_sm or 0) // WARP_SIZE,
        max_blocks=gpu.max_blocks_per_sm,
        shared_memory=gpu.shared_memory_per_sm,
        shared_memory_per_block=gpu.shared_memory_per_block,
    )


def limits_by_capability(name: str, compute_capability: float, sm_count: int, **figures: int | None) -> GpuLimits:
    """The limits of a GPU of this compute capability; ``figures`` (fields of :class:`GpuLimits`) replace its architecture's.

    None and 0 replace nothing.

    Raises:
        InputError: the compute capability is not in the table, or there is no SM.
    """
    capability = round(compute_capability, 1)
    table = architectures().get(str(capability))
    if table is None:
        known = ", ".join(architectures())
        raise InputError(f"GPU {name!r} has compute capability {capability}; occupancy is calculated for {known}")
    if sm_count < 1:
        raise InputError(f"GPU {name!r} has {sm_count} SMs; give a number above 0")
    from_ampere_on = capability >= 8.0
    limits = GpuLimits(
        name=name,
        compute_capability=capability,
        sm_count=sm_count,
        max_warps=table["max_threads_per_sm"] // WARP_SIZE,
        max_blocks=table["max_blocks_per_sm"],
        shared_memory=table["shared_memory_per_sm"],
        shared_memory_per_block=table["shared_memory_per_block"],
        registers=131_072 if capability == 3.7 else 65_536,
        registers_per_block=65_536,
        register_partitions=2 if capability == 6.0 else 4,
        reserved_per_block=1024 if from_ampere_on else 0,
        shared_memory_unit=128 if from_ampere_on else 256,
    )
    return replace(limits, **{name: value for name, value in figures.items() if value})  # type: ignore[arg-type]


def blocks_that_fit(table: pd.DataFrame, gpu: GpuLimits) -> pd.DataFrame:
    """How many blocks of each row of a table with the columns :data:`CONFIGURATION` each resource of an SM allows at once.

    Columns ``warps``, ``registers``, ``shared_memory`` and ``blocks``, infinite for what is not used, on the same index. A row
    that the GPU cannot run, or in which a figure is missing, is NaN throughout.
    """
    sizes = table[list(CONFIGURATION)].to_numpy(dtype=np.float64)
    threads, registers, shared = sizes[:, 3:6].prod(axis=1), sizes[:, 6], sizes[:, 7]
    warps = np.ceil(threads / WARP_SIZE)
    warp_registers = np.ceil(registers * WARP_SIZE / REGISTER_UNIT) * REGISTER_UNIT
    checked_warps = np.ceil(warps / REGISTER_CHECK_PARTITIONS) * REGISTER_CHECK_PARTITIONS
    allocated = np.ceil((shared + gpu.reserved_per_block) / gpu.shared_memory_unit) * gpu.shared_memory_unit
    with np.errstate(divide="ignore", invalid="ignore"):  # an unused resource allows any number of blocks
        warps_of_a_partition = np.floor(gpu.registers // gpu.register_partitions / warp_registers)
        fits = pd.DataFrame(
            {
                "warps": np.floor(gpu.max_warps / warps),
                "registers": np.floor(warps_of_a_partition * gpu.register_partitions / warps),
                "shared_memory": np.floor(gpu.shared_memory / allocated),
                "blocks": float(gpu.max_blocks),
            },
            index=table.index,
        )
    possible = (
        (sizes == np.floor(sizes)).all(axis=1)  # False for NaN
        & (sizes[:, :6] >= 1).all(axis=1)
        & (sizes[:, 6:] >= 0).all(axis=1)
        & (threads <= MAX_THREADS_PER_BLOCK)
        & (registers <= MAX_REGISTERS_PER_THREAD)
        & (warp_registers * checked_warps <= gpu.registers_per_block)
        & (shared <= gpu.shared_memory_per_block)
        & (fits.min(axis=1) >= 1)
    )
    return fits.where(possible)


def grid_occupancy(table: pd.DataFrame, gpu: GpuLimits) -> pd.Series[float]:
    """Mean occupancy of all SMs by the launch of each row, 0..1 (PyTorch's profiler, Kineto, estimates the same); NaN as above.

    With W warps per block, B blocks that fit on an SM at once, G blocks in the grid, S SMs and M warps that an SM holds it is
    min(B, G / S) W / M.
    """
    resident = blocks_that_fit(table, gpu).min(axis=1, skipna=False)
    warps = np.ceil(table[["block_x", "block_y", "block_z"]].astype(float).prod(axis=1) / WARP_SIZE)
    blocks = table[["grid_x", "grid_y", "grid_z"]].astype(float).prod(axis=1)
    grid: pd.Series[float] = resident.clip(upper=blocks / gpu.sm_count) * warps / gpu.max_warps
    return grid


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
