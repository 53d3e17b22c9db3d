"""CUDA's occupancy calculation: how full of warps the launch of a kernel keeps a GPU's SMs.

With W warps per block, B blocks that fit on an SM at once, G blocks in the grid, S SMs and M warps that an SM holds:

- ``grid``    min(B, G / S) W / M: mean over all SMs; PyTorch's profiler (Kineto) estimates this
- ``active``  min(B, ceil(G / S)) W / M: of an SM that has work; ncu's achieved occupancy is the measured counterpart
- ``limit``   B W / M: whatever the grid; ncu calls it theoretical occupancy

All are upper bounds from the launch configuration alone: no counter was read. What they leave out: clusters of blocks and named
barriers (compute capability 9.0 on), and a smaller shared memory carve-out than the largest that the launch may get.

Rules: CUDA C++ Programming Guide and ``cuda_occupancy.h``. :func:`occupancy` says them plainly for one launch,
:func:`occupancies` over a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import InputError
from .gpu_limits import (
    MAX_REGISTERS_PER_THREAD,
    MAX_THREADS_PER_BLOCK,
    REGISTER_CHECK_PARTITIONS,
    REGISTER_UNIT,
    WARP_SIZE,
    GpuLimits,
)

RESOURCES = ("warps", "registers", "shared_memory", "blocks")
"""What can keep further blocks off an SM; of several that allow equally few, the first counts."""

LIMITERS = (*RESOURCES, "grid")
"""``grid``: there are too few blocks to fill the SMs with what they could hold."""

RATIOS = ("grid", "active", "limit")

CONFIGURATION = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread", "shared_memory")
"""Columns of a table that :func:`occupancies` reads; whole numbers, shared memory in bytes per block."""

_NUMBERS = (*RATIOS, *(f"blocks_by_{resource}" for resource in RESOURCES), "resident_blocks", "waves", "tail_efficiency")
RESULTS = (*_NUMBERS, "limiter")
"""Columns that :func:`occupancies` gives."""


@dataclass(frozen=True)
class Launch:
    """A launch configuration; shared memory is static plus dynamic, bytes per block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_memory: int


@dataclass(frozen=True)
class Occupancy:
    """Occupancy of a launch.

    Attributes:
        grid, active, limit: ratios 0..1, defined above.
        blocks_by_warps, blocks_by_registers, blocks_by_shared_memory, blocks_by_blocks: blocks on an SM as far as this resource
            goes; infinity where none of it is used.
        resident_blocks: the least of them, B.
        waves: G / (B S); times that the GPU is filled with blocks.
        tail_efficiency: waves / ceil(waves); share of the block slots that are used until the last wave ends, if all blocks
            take equally long.
        limiter: one of :data:`LIMITERS`.
    """

    grid: float
    active: float
    limit: float
    blocks_by_warps: float
    blocks_by_registers: float
    blocks_by_shared_memory: float
    blocks_by_blocks: float
    resident_blocks: int
    waves: float
    tail_efficiency: float
    limiter: str


def occupancy(launch: Launch, gpu: GpuLimits) -> Occupancy:
    """Occupancy of one launch.

    Raises:
        InputError: the GPU cannot run it.
    """
    if fault := _fault(launch, gpu):
        raise InputError(f"{gpu.name} cannot run this launch: {fault}; correct the launch or name the GPU it ran on")
    blocks = math.prod(launch.grid)
    warps = _ceil_div(math.prod(launch.block), WARP_SIZE)
    fits: dict[str, float] = {"warps": gpu.max_warps // warps, "registers": math.inf, "shared_memory": math.inf}
    registers_per_warp = _registers_per_warp(launch)
    if registers_per_warp:
        warps_per_partition = gpu.registers // gpu.register_partitions // registers_per_warp
        fits["registers"] = warps_per_partition * gpu.register_partitions // warps
    if allocated := _allocated(launch, gpu):
        fits["shared_memory"] = gpu.shared_memory // allocated
    fits["blocks"] = gpu.max_blocks
    resident = int(min(fits.values()))
    per_sm = blocks / gpu.sm_count
    waves = blocks / (resident * gpu.sm_count)
    return Occupancy(
        grid=min(resident, per_sm) * warps / gpu.max_warps,
        active=min(resident, math.ceil(per_sm)) * warps / gpu.max_warps,
        limit=resident * warps / gpu.max_warps,
        blocks_by_warps=fits["warps"],
        blocks_by_registers=fits["registers"],
        blocks_by_shared_memory=fits["shared_memory"],
        blocks_by_blocks=fits["blocks"],
        resident_blocks=resident,
        waves=waves,
        tail_efficiency=waves / math.ceil(waves),
        limiter="grid" if per_sm < resident else min(RESOURCES, key=lambda resource: fits[resource]),
    )


def _fault(launch: Launch, gpu: GpuLimits) -> str:
    """Why the GPU cannot run the launch; empty if it can."""
    threads = math.prod(launch.block)
    if min(*launch.grid, *launch.block) < 1:
        return f"grid {launch.grid} of blocks {launch.block} is empty"
    if threads > MAX_THREADS_PER_BLOCK or _ceil_div(threads, WARP_SIZE) > gpu.max_warps:
        return f"{threads} threads per block are more than {min(MAX_THREADS_PER_BLOCK, WARP_SIZE * gpu.max_warps)}"
    if not 0 <= launch.registers_per_thread <= MAX_REGISTERS_PER_THREAD:
        return f"{launch.registers_per_thread} registers per thread are outside 0 to {MAX_REGISTERS_PER_THREAD}"
    checked_warps = _round_up(_ceil_div(threads, WARP_SIZE), REGISTER_CHECK_PARTITIONS)
    if _registers_per_warp(launch) * checked_warps > gpu.registers_per_block:
        needed = f"{threads} threads of {launch.registers_per_thread} registers"
        return f"{needed} need more than the {gpu.registers_per_block} of a block"
    if launch.shared_memory < 0 or launch.shared_memory > gpu.shared_memory_per_block:
        return f"{launch.shared_memory} bytes of shared memory are outside 0 to {gpu.shared_memory_per_block} per block"
    if _allocated(launch, gpu) > gpu.shared_memory:
        return f"{launch.shared_memory} bytes of shared memory are more than the {gpu.shared_memory} of an SM allow"
    return ""


def _registers_per_warp(launch: Launch) -> int:
    return _round_up(launch.registers_per_thread * WARP_SIZE, REGISTER_UNIT)


def _allocated(launch: Launch, gpu: GpuLimits) -> int:
    """Bytes of shared memory that a block really takes."""
    return _round_up(launch.shared_memory + gpu.reserved_per_block, gpu.shared_memory_unit)


def _ceil_div(value: int, unit: int) -> int:
    return -(-value // unit)


def _round_up(value: int, unit: int) -> int:
    return _ceil_div(value, unit) * unit


def occupancies(table: pd.DataFrame, gpu: GpuLimits) -> pd.DataFrame:
    """Occupancy of every row of a table with the columns :data:`CONFIGURATION`.

    Returns the columns :data:`RESULTS` on the same index, as in :class:`Occupancy`. A row that the GPU cannot run, or in
    which a figure is missing, is NaN throughout.
    """
    columns = {name: table[name].to_numpy(dtype=np.float64) for name in CONFIGURATION}
    blocks = columns["grid_x"] * columns["grid_y"] * columns["grid_z"]
    threads = columns["block_x"] * columns["block_y"] * columns["block_z"]
    registers, asked = columns["registers_per_thread"], columns["shared_memory"]
    with np.errstate(divide="ignore", invalid="ignore"):
        warps = np.ceil(threads / WARP_SIZE)
        per_warp = np.ceil(registers * WARP_SIZE / REGISTER_UNIT) * REGISTER_UNIT
        checked_warps = np.ceil(warps / REGISTER_CHECK_PARTITIONS) * REGISTER_CHECK_PARTITIONS
        allocated = np.ceil((asked + gpu.reserved_per_block) / gpu.shared_memory_unit) * gpu.shared_memory_unit
        possible = np.logical_and.reduce(
            [
                *(values == np.floor(values) for values in columns.values()),  # False for NaN
                *(columns[name] >= 1 for name in CONFIGURATION[:6]),
                threads <= MAX_THREADS_PER_BLOCK,
                warps <= gpu.max_warps,
                (registers >= 0) & (registers <= MAX_REGISTERS_PER_THREAD),
                per_warp * checked_warps <= gpu.registers_per_block,
                (asked >= 0) & (asked <= gpu.shared_memory_per_block),
                allocated <= gpu.shared_memory,
            ]
        )
        partition = gpu.registers // gpu.register_partitions
        fits = {
            "warps": np.floor(gpu.max_warps / warps),
            "registers": np.where(
                per_warp > 0, np.floor(np.floor(partition / per_warp) * gpu.register_partitions / warps), np.inf
            ),
            "shared_memory": np.where(allocated > 0, np.floor(gpu.shared_memory / allocated), np.inf),
            "blocks": np.full(len(table), float(gpu.max_blocks)),
        }
        by_resource = np.stack([fits[resource] for resource in RESOURCES])
        resident = by_resource.min(axis=0)
        per_sm = blocks / gpu.sm_count
        waves = blocks / (resident * gpu.sm_count)
        results: dict[str, NDArray[np.float64]] = {
            "grid": np.minimum(resident, per_sm) * warps / gpu.max_warps,
            "active": np.minimum(resident, np.ceil(per_sm)) * warps / gpu.max_warps,
            "limit": resident * warps / gpu.max_warps,
            **{f"blocks_by_{resource}": fits[resource] for resource in RESOURCES},
            "resident_blocks": resident,
            "waves": waves,
            "tail_efficiency": waves / np.ceil(waves),
        }
    answers = pd.DataFrame({name: np.where(possible, values, np.nan) for name, values in results.items()}, index=table.index)
    limiter = np.asarray(RESOURCES, dtype=object)[np.where(possible, by_resource, 0.0).argmin(axis=0)]
    limiter = np.where(per_sm < resident, "grid", limiter)
    answers["limiter"] = pd.Series(limiter, index=table.index, dtype=object).where(possible)
    return answers[list(RESULTS)]
