"""What an operator would take at a GPU's full speed, and the scale-free properties by which real kernels fall short of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS
from epochcast.analyzer.backends.distributed.plan.precision import peak_flops
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu

# Output tiles of matrix product kernels and the share of the peak that one reaches: smaller tiles read their operands more
# often. A first guess of ours, which the boosted trees correct.
_TILES = ((256, 128, 1.0), (128, 128, 1.0), (128, 64, 0.95), (64, 64, 0.85), (64, 32, 0.65), (32, 32, 0.5))

_WIDEST_ALIGNMENT = 32


@dataclass(frozen=True)
class Ideal:
    """Seconds at full speed, arrays of shape (n,).

    Attributes:
        compute: the best tiling's whole waves at the peak of the dtype; 0 where nothing is multiplied.
        plain: FLOPs over the peak, without tiles and waves.
        traffic: bytes over the bandwidth.
        waves: tiles of 128 x 128 per processor.
    """

    compute: NDArray[np.float64]
    plain: NDArray[np.float64]
    traffic: NDArray[np.float64]
    waves: NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """How many times longer than the ideal a GPU takes in one family of operators and one dtype.

    Attributes:
        compute, memory: log of measured over ideal seconds where the one or the other bounds it.
        dispatch: log of the seconds that measuring adds to every operator: the host's way to a kernel on an idle GPU.
    """

    compute: float
    memory: float
    dispatch: float

    def bound(self, ideal: Ideal) -> NDArray[np.float64]:
        """Seconds of the slower of computing and memory, shape (n,)."""
        slower: NDArray[np.float64] = np.maximum(np.exp(self.compute) * ideal.compute, np.exp(self.memory) * ideal.traffic)
        return slower


def ideal_of(shapes: pd.DataFrame, gpu: Gpu, dtype: str) -> Ideal:
    """Ideal seconds of operators of one dtype on a GPU; ``dtype`` may be ``tf32`` or ``fp8``.

    Raises:
        InputError: the GPU does not compute in that dtype, or its row in the catalogue lacks the L2 cache.
    """
    if gpu.l2_cache is None:
        raise InputError(f"the catalogue has no l2_cache for {gpu.name}; add it to its row, in bytes")
    batch, m, n = (shapes[name].to_numpy(dtype=float) for name in ("batch", "m", "n"))
    flops = shapes["flops"].to_numpy(dtype=float)
    peak = peak_flops(gpu, dtype) if flops.any() else 1.0
    compute = np.full(len(shapes), np.inf)
    for wide, narrow, efficiency in _TILES:
        for down, across in {(wide, narrow), (narrow, wide)}:
            tiles = batch * np.ceil(m / down) * np.ceil(n / across)
            padded = np.ceil(tiles / gpu.sm_count) * gpu.sm_count * down * across / (batch * m * n)
            compute = np.minimum(compute, flops * padded / (peak * efficiency))
    return Ideal(
        compute=compute,
        plain=flops / peak,
        traffic=shapes["bytes"].to_numpy(dtype=float) / gpu.memory_bandwidth,
        waves=batch * np.ceil(m / 128) * np.ceil(n / 128) / gpu.sm_count,
    )


def features_of(family: str, shapes: pd.DataFrame, gpu: Gpu, ideal: Ideal, rates: Rates) -> NDArray[np.float64]:
    """What the trees see of operators of one family, shape (n, :func:`width`); nothing in it has a unit, no GPU is named."""
    m, n, k = (shapes[name].to_numpy(dtype=float) for name in ("m", "n", "k"))
    cached = np.log2(shapes["bytes"].to_numpy(dtype=float) / (gpu.l2_cache or np.nan))
    if family not in PRODUCTS:
        return np.column_stack([np.log2(n), np.log2(m / gpu.sm_count), _alignment(n), cached])
    full_waves = np.ceil(ideal.waves)
    return np.column_stack(
        [
            np.log2(k),
            np.log2(np.minimum(m, n)),
            np.log2(ideal.waves),
            ideal.waves / full_waves,
            np.log2(ideal.compute / ideal.plain),
            np.log2(ideal.compute / ideal.traffic) + (rates.compute - rates.memory) / np.log(2.0),
            cached,
            _alignment(m),
            _alignment(n),
            _alignment(k),
        ]
    )


def _alignment(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log2 of the largest power of two that divides each size, at most 32: what vector loads can use."""
    integers = sizes.astype(np.int64)
    aligned: NDArray[np.float64] = np.log2(np.minimum(integers & -integers, _WIDEST_ALIGNMENT))
    return aligned
