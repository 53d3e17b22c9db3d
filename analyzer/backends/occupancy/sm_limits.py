"""What a GPU holds at once, and CUDA's occupancy calculation: how full of warps the launch of a kernel keeps its SMs.

Figures of a GPU come from the catalogue (``regressor/gpus.toml``, or a user's own file) or from a profile; what neither has
follows from its compute capability (``src/epochcast/architectures.toml``). Rules, allocation units and partitions: CUDA C++
Programming Guide and ``cuda_occupancy.h`` of the toolkit. Results are upper bounds from the launch configuration alone: no
counter was read. What they leave out: clusters of blocks and named barriers (compute capability 9.0 on), and a smaller shared
memory carve-out than the largest that the launch may get.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.architectures import architectures
from epochcast.regressor.gpus import Gpu

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
