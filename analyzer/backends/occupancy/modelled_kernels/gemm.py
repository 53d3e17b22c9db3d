"""Matrix products: which tile cuBLAS would take, in how many parts the inner side is split, and the grid.

The tile is not known: of those that the traces show, the one is taken that a simple count of cycles finds fastest. The grid
is as the traces show it: SIMT kernels have a block per tile; CUTLASS's order their blocks in bundles of up to eight columns
of tiles and round up to whole bundles; Hopper's are persistent and have no more blocks than fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .launch_configurations import Tile
from .operator import Kernel, Operator, Target, ceil_div
from .rates import L2_BYTES_PER_CYCLE, cycles_per_second, products_per_cycle

_SPLITS = np.array([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32])
_LEAST_INNER = 64
"""Elements of the inner side that a part keeps when it is split."""

_QUARTERS = 4
"""Of an SM; each has its own arithmetic and runs one warp at a time."""

_REDUCE_THREADS = 512
_EPILOGUE_TILE = 32


def linear(operator: Operator, target: Target) -> list[Kernel]:
    """A product with weights."""
    columns, inner = operator.side("output_features"), operator.side("reduced")
    rows = ceil_div(operator.written, columns)
    kernels = product(target, target.arithmetic, rows, columns, inner)
    if operator.weights > columns * inner and target.arithmetic == "fp32":  # others add the bias themselves
        moved = 2 * operator.width * operator.written
        grid = (ceil_div(columns, _EPILOGUE_TILE), ceil_div(rows, _EPILOGUE_TILE), 1)
        kernels.append(Kernel(target.configurations.kernels["bias_epilogue"], grid, moved))
    return kernels


def matmul(operator: Operator, target: Target) -> list[Kernel]:
    """A batch of products of activations."""
    rows, columns, inner = operator.side("rows"), operator.side("output_features"), operator.side("reduced")
    batch = ceil_div(operator.written, rows * columns)
    return product(target, target.arithmetic, rows, columns, inner, batch)


def product(target: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int = 1) -> list[Kernel]:
    """Kernels of ``batch`` products (rows x inner) · (inner x columns)."""
    tile, splits, seconds = fastest("product", target, arithmetic, rows, columns, inner, batch)
    width = 2 if arithmetic == "half" else 4
    moved = width * batch * (rows * inner + inner * columns + rows * columns)
    grid = _grid(tile, target, rows, columns, batch * splits)
    kernels = [Kernel(tile.configuration, grid, moved, seconds)]
    if splits > 1:
        parts = 4.0 * batch * rows * columns * splits
        reduce_grid = (ceil_div(rows * columns, _REDUCE_THREADS), 1, batch)
        kernels.append(Kernel(target.configurations.kernels["split_k_reduce"], reduce_grid, parts))
    return kernels


def fastest(
    kind: str, target: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int = 1, turning: float = 0.0
) -> tuple[Tile, int, float]:
    """The tile, the parts of the inner side, and the seconds that its arithmetic takes.

    At each step along the inner side an SM does the tile's multiplications and loads its edges from the L2 cache; the GPU is
    done when the SM with the most tiles is. A block of fewer than four warps uses as many quarters of its SM. Splitting costs
    another pass over the answers and a kernel; ``turning`` are the seconds that a convolution's kernel costs more whose answer
    has the channels last.
    """
    tiles = _tiles(kind, target, arithmetic, inner, columns)
    tile_rows = np.array([one.rows for one in tiles], dtype=float)[:, None]
    tile_columns = np.array([one.columns for one in tiles], dtype=float)[:, None]
    splits = np.where(inner >= _SPLITS * _LEAST_INNER, _SPLITS, 1)[None, :]
    splits = np.where(np.array([_is_persistent(one) for one in tiles])[:, None], 1, splits)
    count = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns) * batch * splits
    width = 2 if arithmetic == "half" else 4
    multiplying = tile_rows * tile_columns / products_per_cycle(target.gpu, arithmetic)
    loading = (tile_rows + tile_columns) * width / L2_BYTES_PER_CYCLE
    warps = np.array([one.configuration.threads / 32 for one in tiles])[:, None]
    rounds = np.maximum(np.ceil(count / target.gpu.sm_count), _QUARTERS / warps)
    seconds = rounds * np.ceil(inner / splits) * (multiplying + loading) / cycles_per_second(target.gpu)
    again = 4.0 * batch * rows * columns * splits / target.gpu.memory_bandwidth + target.configurations.shortest_kernel
    more = np.array([turning if has_channels_last(one) else 0.0 for one in tiles])[:, None]
    best = np.unravel_index(np.argmin(seconds + more + np.where(splits > 1, again, 0.0)), seconds.shape)
    return tiles[int(best[0])], int(splits[best]), float(seconds[best])


def _tiles(kind: str, target: Target, arithmetic: str, inner: int, columns: int) -> Sequence[Tile]:
    """Of a product those with the widest loads that its sides allow; cuDNN fills channels up to what its kernels need.

    Where no tile of a convolution fits the GPU those of products stand for them.
    """
    found = target.configurations.tiles.get((kind, arithmetic)) or target.configurations.tiles["product", arithmetic]
    if kind == "convolution":
        return found
    usable = [max((one for one in tile.alignments if inner % one == 0 == columns % one), default=0) for tile in found]
    return [tile for tile, alignment in zip(found, usable, strict=True) if alignment == max(usable)]


def has_channels_last(tile: Tile) -> bool:
    """Whether the answer of a convolution's kernel must be turned round."""
    return "nhwckrsc_nchw" not in tile.configuration.name


def _is_persistent(tile: Tile) -> bool:
    return tile.configuration.name.startswith("sm90_xmma")


def _grid(tile: Tile, target: Target, rows: int, columns: int, depth: int) -> tuple[int, int, int]:
    down, across = ceil_div(rows, tile.rows), ceil_div(columns, tile.columns)
    if _is_persistent(tile):
        count = down * across * depth
        waves = ceil_div(count, target.gpu.sm_count)
        return math.ceil(count / waves), 1, 1
    return (*bundled(tile, down, across), depth)


def bundled(tile: Tile, down: int, across: int, most: int = 8) -> tuple[int, int]:
    """CUTLASS's order of blocks: bundles of 8, 4 or 2 columns of tiles, up to ``most``, where there are at least 6, 3 or 2."""
    if "cutlass" not in tile.configuration.name:
        return across, down
    bundle = next((size for size, least in ((8, 6), (4, 3), (2, 2)) if across >= least and size <= most), 1)
    return down * bundle, ceil_div(across, bundle)
