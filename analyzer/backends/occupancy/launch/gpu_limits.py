"""What a GPU holds at once: SMs, and the warps, blocks, registers and shared memory of each.

Figures of a GPU come from the catalogue (``regressor/gpus.toml``, or a user's own file) or from the profile itself; what
neither has follows from its compute capability (``src/epochcast/architectures.toml``). Allocation units and partitions:
``cuda_occupancy.h`` of the CUDA toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from epochcast.analyzer.errors import InputError
from epochcast.architectures import architectures
from epochcast.regressor.gpus import Gpu

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
