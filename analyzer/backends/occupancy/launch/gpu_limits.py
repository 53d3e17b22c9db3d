"""What a GPU holds at once: SMs, and the warps, blocks, registers and shared memory of each.

Figures of a GPU come from the catalogue (``regressor/gpus.toml``, or a user's own file) or from the profile itself; what
neither has comes from the table below, which goes by compute capability. Source: CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"; allocation units and partitions: ``cuda_occupancy.h`` of the CUDA toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass

from .....regressor.gpus import Gpu
from ....errors import InputError

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
        registers: 32-bit registers.
        registers_per_block: that one block may have.
        register_partitions: parts that the registers are divided into; a warp's lie in one.
        shared_memory: bytes, with the largest carve-out from the L1 cache.
        shared_memory_per_block: bytes that one block may ask for (opt-in).
        reserved_per_block: bytes that the driver adds to each block's shared memory.
        shared_memory_unit: bytes; what a block gets is a multiple.
    """

    name: str
    compute_capability: float
    sm_count: int
    max_warps: int
    max_blocks: int
    registers: int
    registers_per_block: int
    register_partitions: int
    shared_memory: int
    shared_memory_per_block: int
    reserved_per_block: int
    shared_memory_unit: int


@dataclass(frozen=True)
class Figures:
    """What a catalogue or a profile says of an SM; None where it says nothing. Units as in :class:`GpuLimits`."""

    max_warps: int | None = None
    max_blocks: int | None = None
    registers: int | None = None
    registers_per_block: int | None = None
    shared_memory: int | None = None
    shared_memory_per_block: int | None = None


@dataclass(frozen=True)
class _Architecture:
    max_warps: int
    max_blocks: int
    shared_memory_kib: int
    shared_memory_per_block_kib: int
    registers: int = 65_536
    registers_per_block: int = 65_536


_ARCHITECTURES = {
    3.5: _Architecture(64, 16, 48, 48),
    3.7: _Architecture(64, 16, 112, 48, registers=131_072),
    5.0: _Architecture(64, 32, 64, 48),
    5.2: _Architecture(64, 32, 96, 48),
    6.0: _Architecture(64, 32, 64, 48),
    6.1: _Architecture(64, 32, 96, 48),
    7.0: _Architecture(64, 32, 96, 96),
    7.2: _Architecture(64, 32, 96, 96),
    7.5: _Architecture(32, 16, 64, 64),
    8.0: _Architecture(64, 32, 164, 163),
    8.6: _Architecture(48, 16, 100, 99),
    8.7: _Architecture(48, 16, 164, 163),
    8.9: _Architecture(48, 24, 100, 99),
    9.0: _Architecture(64, 32, 228, 227),
    10.0: _Architecture(64, 32, 228, 227),
    10.3: _Architecture(64, 32, 228, 227),
    12.0: _Architecture(48, 24, 100, 99),
    12.1: _Architecture(48, 24, 100, 99),
}


def limits_of(gpu: Gpu) -> GpuLimits:
    """The limits of a GPU of the catalogue.

    Raises:
        InputError: it is another vendor's, or its compute capability is not in the table.
    """
    if gpu.vendor != "NVIDIA":
        raise InputError(f"GPU {gpu.name!r} is made by {gpu.vendor}; occupancy is calculated for NVIDIA's GPUs only")
    warps = gpu.max_warps_per_sm
    if warps is None and gpu.max_threads_per_sm is not None:
        warps = gpu.max_threads_per_sm // WARP_SIZE
    known = Figures(
        max_warps=warps,
        max_blocks=gpu.max_blocks_per_sm,
        shared_memory=gpu.shared_memory_per_sm,
        shared_memory_per_block=gpu.shared_memory_per_block,
    )
    return limits_by_capability(gpu.name, gpu.compute_capability, gpu.sm_count, known)


def limits_by_capability(name: str, compute_capability: float, sm_count: int, known: Figures | None = None) -> GpuLimits:
    """The limits of a GPU of this compute capability; ``known`` figures take the place of the table's.

    Raises:
        InputError: the compute capability is not in the table, or there is no SM.
    """
    capability = round(compute_capability, 1)
    if capability not in _ARCHITECTURES:
        there = ", ".join(str(one) for one in _ARCHITECTURES)
        raise InputError(f"GPU {name!r} has compute capability {capability}; occupancy is calculated for {there}")
    if sm_count < 1:
        raise InputError(f"GPU {name!r} has {sm_count} SMs; give a number above 0")
    table, known = _ARCHITECTURES[capability], known or Figures()
    from_ampere_on = capability >= 8.0
    return GpuLimits(
        name=name,
        compute_capability=capability,
        sm_count=sm_count,
        max_warps=known.max_warps or table.max_warps,
        max_blocks=known.max_blocks or table.max_blocks,
        registers=known.registers or table.registers,
        registers_per_block=known.registers_per_block or table.registers_per_block,
        register_partitions=2 if capability == 6.0 else 4,
        shared_memory=known.shared_memory or 1024 * table.shared_memory_kib,
        shared_memory_per_block=known.shared_memory_per_block or 1024 * table.shared_memory_per_block_kib,
        reserved_per_block=1024 if from_ampere_on else 0,
        shared_memory_unit=128 if from_ampere_on else 256,
    )
