"""How fast an SM computes, and how long a kernel takes: a roofline with a floor, for weighing kernels against each other."""

from __future__ import annotations

from .....regressor import Gpu

L2_BYTES_PER_CYCLE = 64.0
"""That one SM gets from the L2 cache: the width of its path on V100 and later."""

EXPONENTIALS_PER_CYCLE = 16.0
"""Of one SM's special function units."""


def flops_per_second(gpu: Gpu, arithmetic: str) -> float:
    """Peak of ``fp32``, ``tf32`` or ``half`` arithmetic; the next slower kind where a GPU has no such units."""
    plain = gpu.effective_flops
    if arithmetic == "tf32":
        return gpu.tf32_tensor_flops or plain
    if arithmetic == "half":
        return gpu.fp16_tensor_flops or gpu.bf16_tensor_flops or gpu.fp16_flops or plain
    return plain


def cycles_per_second(gpu: Gpu) -> float:
    """Clock that the peaks are counted at [Hz]."""
    return gpu.boost_clock


def products_per_cycle(gpu: Gpu, arithmetic: str) -> float:
    """Multiplications with addition of one SM in one cycle."""
    return flops_per_second(gpu, arithmetic) / (2.0 * gpu.sm_count * cycles_per_second(gpu))
