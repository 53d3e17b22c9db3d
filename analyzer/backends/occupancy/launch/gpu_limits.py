"""What a GPU holds at once: SMs, and the warps, blocks, registers and shared memory of each.

Figures of a GPU come from the catalogue (``regressor/gpus.toml``, or a user's own file) or from the profile itself; what
neither has comes from the table below, which goes by compute capability. Source: CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"; allocation units and partitions: ``cuda_occupancy.h`` of the CUDA toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .....regressor.gpus import Gpu
from ....errors import InputError

WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
MAX_REGISTERS_PER_THREAD = 255

REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this, from compute capability 3.0 on."""

REGISTER_CHECK_PARTITIONS = 4
"""A launch is refused if its warps, rounded up to this, need more registers than a block may have, on every architecture."""

_KIB = 1024


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
        shared_memory_per_block: bytes that one block may ask for (opt-in).
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


_ARCHITECTURES = {  # compute capability: warps, blocks, KiB of shared memory of an SM and of a block
    3.5: (64, 16, 48, 48),
    3.7: (64, 16, 112, 48),
    5.0: (64, 32, 64, 48),
    5.2: (64, 32, 96, 48),
    6.0: (64, 32, 64, 48),
    6.1: (64, 32, 96, 48),
    7.0: (64, 32, 96, 96),
    7.2: (64, 32, 96, 96),
    7.5: (32, 16, 64, 64),
    8.0: (64, 32, 164, 163),
    8.6: (48, 16, 100, 99),
    8.7: (48, 16, 164, 163),
    8.9: (48, 24, 100, 99),
    9.0: (64, 32, 228, 227),
    10.0: (64, 32, 228, 227),
    10.3: (64, 32, 228, 227),
    12.0: (48, 24, 100, 99),
    12.1: (48, 24, 100, 99),
}


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
    """The limits of a GPU of this compute capability; ``figures`` (fields of :class:`GpuLimits`) replace the table's.

    None and 0 replace nothing.

    Raises:
        InputError: the compute capability is not in the table, or there is no SM.
    """
    capability = round(compute_capability, 1)
    if capability not in _ARCHITECTURES:
        known = ", ".join(map(str, _ARCHITECTURES))
        raise InputError(f"GPU {name!r} has compute capability {capability}; occupancy is calculated for {known}")
    if sm_count < 1:
        raise InputError(f"GPU {name!r} has {sm_count} SMs; give a number above 0")
    warps, blocks, shared, shared_per_block = _ARCHITECTURES[capability]
    from_ampere_on = capability >= 8.0
    limits = GpuLimits(
        name=name,
        compute_capability=capability,
        sm_count=sm_count,
        max_warps=warps,
        max_blocks=blocks,
        shared_memory=_KIB * shared,
        shared_memory_per_block=_KIB * shared_per_block,
        registers=131_072 if capability == 3.7 else 65_536,
        registers_per_block=65_536,
        register_partitions=2 if capability == 6.0 else 4,
        reserved_per_block=1024 if from_ampere_on else 0,
        shared_memory_unit=128 if from_ampere_on else 256,
    )
    return replace(limits, **{name: value for name, value in figures.items() if value})  # type: ignore[arg-type]
