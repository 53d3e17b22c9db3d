"""CUDA's occupancy calculation: how full of warps the launch of a kernel keeps a GPU's SMs.

With W warps per block, B blocks that fit on an SM at once, G blocks in the grid, S SMs and M warps that an SM holds:

- ``grid``    min(B, G / S) W / M: mean over all SMs; PyTorch's profiler (Kineto) estimates this
- ``active``  min(B, ceil(G / S)) W / M: of an SM that has work; ncu's achieved occupancy is the measured counterpart
- ``limit``   B W / M: for any grid; ncu calls it theoretical occupancy

All are upper bounds from the launch configuration alone: no counter was read. What they leave out: clusters of blocks and named
barriers (compute capability 9.0 on), and a smaller shared memory carve-out than the largest that the launch may get.

Rules: CUDA C++ Programming Guide and ``cuda_occupancy.h``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.launch.gpu_limits import (
    MAX_REGISTERS_PER_THREAD,
    MAX_THREADS_PER_BLOCK,
    REGISTER_CHECK_PARTITIONS,
    REGISTER_UNIT,
    WARP_SIZE,
    GpuLimits,
)

CONFIGURATION = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread", "shared_memory")
"""Columns of a launch configuration; whole numbers, shared memory in bytes per block, static and dynamic together."""

RESOURCES = ("warps", "registers", "shared_memory", "blocks")
"""What can keep further blocks off an SM; of several that allow equally few, the first counts."""

LIMITERS = (*RESOURCES, "grid")
"""``grid``: there are too few blocks to fill the SMs with what they could hold."""


def occupancies(table: pd.DataFrame, gpu: GpuLimits) -> pd.DataFrame:
    """Occupancy of every row of a table with the columns :data:`CONFIGURATION`.

    Returns, on the same index, the ratios 0..1 ``grid``, ``active`` and ``limit``; ``resident_blocks``, B; ``tail_efficiency``,
    the share of the block slots that are used until the last wave ends, if all blocks take equally long; ``limiter``, one of
    :data:`LIMITERS`. A row that the GPU cannot run, or in which a figure is missing, is NaN throughout.
    """
    sizes = table[list(CONFIGURATION)].to_numpy(dtype=np.float64)
    blocks, threads = sizes[:, :3].prod(axis=1), sizes[:, 3:6].prod(axis=1)
    registers, shared = sizes[:, 6], sizes[:, 7]
    warps = np.ceil(threads / WARP_SIZE)
    warp_registers = np.ceil(registers * WARP_SIZE / REGISTER_UNIT) * REGISTER_UNIT
    checked_warps = np.ceil(warps / REGISTER_CHECK_PARTITIONS) * REGISTER_CHECK_PARTITIONS
    allocated = np.ceil((shared + gpu.reserved_per_block) / gpu.shared_memory_unit) * gpu.shared_memory_unit
    with np.errstate(divide="ignore", invalid="ignore"):  # an unused resource allows any number of blocks
        warps_of_a_partition = np.floor(gpu.registers // gpu.register_partitions / warp_registers)
        fits = np.stack(
            [
                np.floor(gpu.max_warps / warps),
                np.floor(warps_of_a_partition * gpu.register_partitions / warps),
                np.floor(gpu.shared_memory / allocated),
                np.full(len(table), float(gpu.max_blocks)),
            ]
        )
        resident = fits.min(axis=0)
        per_sm = blocks / gpu.sm_count
        waves = blocks / (resident * gpu.sm_count)
        results = pd.DataFrame(
            {
                "grid": np.minimum(resident, per_sm) * warps / gpu.max_warps,
                "active": np.minimum(resident, np.ceil(per_sm)) * warps / gpu.max_warps,
                "limit": resident * warps / gpu.max_warps,
                "resident_blocks": resident,
                "tail_efficiency": waves / np.ceil(waves),
                "limiter": np.where(per_sm < resident, "grid", np.array(RESOURCES, dtype=object)[fits.argmin(axis=0)]),
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
        & (resident >= 1)
    )
    return results.where(np.broadcast_to(possible[:, None], results.shape))
