"""Attention in one operator: PyTorch's flash kernel in half precision, else its memory-efficient one."""

from __future__ import annotations

from dataclasses import replace

from .operator import HALF, Kernel, Operator, Target, ceil_div
from .rates import EXPONENTIALS_PER_CYCLE, L2_BYTES_PER_CYCLE, cycles_per_second, products_per_cycle

_FLASH_QUERIES = 128
_FLASH_MOST_FEATURES = 256
_SMALL_HEAD = 64
"""Features of a head. Up to these the memory-efficient kernel takes 64 queries, else 32; the flash kernel 128 keys, else 64."""


def attention(operator: Operator, target: Target) -> list[Kernel]:
    """One kernel; a block per head, sample and some queries."""
    features, queries, keys = operator.side("output_features"), operator.side("rows"), operator.side("reduced")
    heads = operator.side("heads")
    batch = ceil_div(operator.written, heads * queries * features)
    flash = (
        target.precision in HALF
        and target.limits.compute_capability >= 8.0
        and features <= _FLASH_MOST_FEATURES
        and "flash_attention" in target.configurations.kernels
    )
    if flash:
        of_a_block, configuration = _FLASH_QUERIES, target.configurations.kernels["flash_attention"]
        at_once = 128 if features <= _SMALL_HEAD else 64
        # the traces show heads of 64 features; the queries, keys and values of a block lie in shared memory
        shared = min(2 * features * (_FLASH_QUERIES + 2 * at_once), target.limits.shared_memory_per_block)
        configuration = replace(configuration, shared_memory=shared)
    else:
        of_a_block = 64 if features <= _SMALL_HEAD else 32
        configuration = target.configurations.kernels["attention_in_tiles"]
    blocks = ceil_div(queries, of_a_block)
    cycles = of_a_block * keys * (2 * features / products_per_cycle(target.gpu, target.arithmetic) + 1 / EXPONENTIALS_PER_CYCLE)
    cycles += 2 * keys * features * operator.width / L2_BYTES_PER_CYCLE
    waves = ceil_div(blocks * heads * batch, target.gpu.sm_count)
    seconds = waves * cycles / cycles_per_second(target.gpu)
    return [Kernel(configuration, (blocks, heads, batch), operator.moved, seconds)]
