"""Operators made of matrix products: which tile cuBLAS or cuDNN would take, split in how many parts, and the grid.

The tile is not known: of those that the traces show, the fastest by a simple count of cycles is taken. The grid
is as the traces show it: SIMT kernels have a block per tile; CUTLASS's order their blocks in bundles of up to eight columns
of tiles and round up to whole bundles; Hopper's are persistent and have no more blocks than fit.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from epochcast.analyzer.backends.occupancy.configuration import WIDTHS
from epochcast.analyzer.backends.occupancy.graph.computation_graph import RECURRENT
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import Tile
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target, ceil_div

_L2_BYTES_PER_CYCLE = 64.0
"""That one SM gets from the L2 cache: the width of its path on V100 and later."""

_EXPONENTIALS_PER_CYCLE = 16.0
"""Of one SM's special function units."""

_SPLITS = np.array([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32])
_LEAST_INNER = 64
"""Elements of the inner side that a part keeps when it is split."""

_FLASH_QUERIES = 128


def linear(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """A product with weights."""
    columns, inner = operator.side("output_features"), operator.side("reduced")
    rows = ceil_div(operator.written, columns)
    kernels = product(target, target.arithmetic, rows, columns, inner)
    if operator.weights > columns * inner and target.arithmetic == "fp32":  # others add the bias themselves
        tiles = (ceil_div(columns, 32), ceil_div(rows, 32), 1)
        kernels.append(target.kernel("bias_epilogue", tiles, 2 * operator.width * operator.written))
    return kernels


def matmul(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """A batch of products of activations."""
    rows, columns, inner = map(operator.side, ("rows", "output_features", "reduced"))
    return product(target, target.arithmetic, rows, columns, inner, ceil_div(operator.written, rows * columns))


def attention(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """PyTorch's flash kernel in half precision, else its memory-efficient one; a block per head, sample and some queries."""
    features, queries, keys, heads = map(operator.side, ("output_features", "rows", "reduced", "heads"))
    known, limits, small = target.configurations.kernels, target.limits, features <= 64
    flash = target.arithmetic == "half" and limits.compute_capability >= 8.0 and features <= 256
    if flash and "flash_attention" in known:
        # the traces show heads of 64 features; the queries, keys and values of a block lie in shared memory
        of_a_block, keys_at_once = _FLASH_QUERIES, 128 if small else 64
        shared = min(2 * features * (_FLASH_QUERIES + 2 * keys_at_once), limits.shared_memory_per_block)
        configuration = replace(known["flash_attention"], shared_memory=shared)
    else:
        of_a_block, configuration = 64 if small else 32, known["attention_in_tiles"]
    grid = (ceil_div(queries, of_a_block), heads, ceil_div(operator.written, heads * queries * features))
    cycles = of_a_block * keys * (2 * features / target.products_per_cycle(target.arithmetic) + 1 / _EXPONENTIALS_PER_CYCLE)
    cycles += 2 * keys * features * operator.width / _L2_BYTES_PER_CYCLE
    waves = ceil_div(math.prod(grid), target.gpu.sm_count)
    return [Kernel(configuration, grid, operator.moved, waves * cycles / target.gpu.boost_clock)]


def recurrent(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """All kernels of all layers, as cuDNN's standard algorithm runs them: assumed, for no public trace has one.

    Per layer and direction: one product of all steps with the input's weights, then per step a product with the state's weights
    and a kernel for the gates. An input with the batch first is copied into another order before.
    """
    gates, arithmetic = RECURRENT[operator.word], target.convolution_arithmetic
    hidden, steps, layers, directions = map(operator.side, ("output_features", "rows", "layers", "directions"))
    batch = ceil_div(operator.written, hidden * directions * steps)
    gates_moved = operator.width * batch * hidden * (2 * gates + 3)
    of_a_step = product(target, arithmetic, batch, gates * hidden, hidden)
    of_a_step.append(target.flat("recurrent_gates", batch * hidden, 1, gates_moved))
    kernels = [target.strided(operator, operator.read)]
    for layer in range(layers):
        inner = operator.side("input_features") if layer == 0 else hidden * directions
        of_the_input = product(target, arithmetic, batch * steps, gates * hidden, inner)
        kernels += [replace(kernel, launches=directions) for kernel in of_the_input]
        kernels += [replace(kernel, launches=steps * directions) for kernel in of_a_step]
    return kernels


def convolution(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """As PyTorch and cuDNN run those of images that lie channel by channel (NCHW).

    - depthwise: PyTorch's own kernel, a thread per answer
    - 1 x 1 without stride: a batch of products, one per image
    - else an implicit product: pixels x channels of the answer. Tensor-core kernels want the channels last: the image and the
      weights are turned round before, and the answer back unless the kernel does so itself; where the channels are no multiple
      of four, fp32 falls back to a kernel without tensor cores
    - a bias is another kernel, except of the depthwise
    """
    groups, inputs, outputs, inner = map(operator.side, ("groups", "input_features", "output_features", "reduced"))
    if 1 < groups == inputs:
        return [target.flat("depthwise_convolution", operator.written, 1, operator.moved)]
    arithmetic, pixels = target.convolution_arithmetic, ceil_div(operator.written, outputs * operator.samples)
    window = (operator.side("kernel_height"), operator.side("kernel_width"))
    if arithmetic == "tf32" and inputs / groups % 4:
        arithmetic = "fp32"
    if operator.side("stride") == operator.side("dilation") == groups == 1 and window == (1, 1):
        kernels = product(target, arithmetic, outputs, pixels, inner, operator.samples)
    else:
        kernels = _implicit(operator, target, arithmetic)
    if operator.weights > outputs * inner:
        kernels.append(target.strided(operator, operator.written))
    return kernels


def _implicit(operator: ModelledOperator, target: Target, arithmetic: str) -> list[Kernel]:
    groups, inputs, outputs, inner = map(operator.side, ("groups", "input_features", "output_features", "reduced"))

    def turned(name: str, elements: float, channels: int, images: int) -> Kernel:
        """Another order of the elements, 32 pixels x 32 channels in a block."""
        grid = (ceil_div(ceil_div(elements, channels * images), 32), ceil_div(channels, 32), images)
        return target.kernel(name, grid, 2 * operator.width * elements)

    pixels, columns = ceil_div(operator.written, outputs), ceil_div(outputs, groups)
    back = turned("channels_first", operator.written, outputs, operator.samples)
    turning = 0.0 if arithmetic == "fp32" else back.moved / target.gpu.memory_bandwidth
    tile, _, seconds = fastest("convolution", target, arithmetic, pixels, columns, inner, groups, turning)
    grid = (*tile_blocks(tile, pixels, columns, most=4), groups)  # bundles of up to four, as the traces show
    main = Kernel(tile, grid, operator.moved, seconds)
    if arithmetic == "fp32":
        return [target.flat("convolution_offsets", ceil_div(operator.written, outputs * operator.samples), 1, 0.0), main]
    per_group = max(1, inner // (operator.side("kernel_height") * operator.side("kernel_width")))
    image = turned("channels_last", operator.read, inputs, operator.samples)
    weights = turned("channels_last", outputs * inner, per_group, outputs)
    return [image, weights, main, *([back] if tile.channels_last else [])]


def product(target: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int = 1) -> list[Kernel]:
    """Kernels of ``batch`` products (rows x inner) · (inner x columns)."""
    tile, splits, seconds = fastest("product", target, arithmetic, rows, columns, inner, batch)
    moved = WIDTHS[target.precision] * batch * (rows * inner + inner * columns + rows * columns)
    grid = (*tile_blocks(tile, rows, columns), batch * splits)
    if tile.persistent:
        count = math.prod(grid)
        grid = (math.ceil(count / ceil_div(count, target.gpu.sm_count)), 1, 1)
    kernels = [Kernel(tile, grid, moved, seconds)]
    if splits > 1:
        summed = target.flat("split_k_reduce", rows * columns, 1, 4.0 * batch * rows * columns * splits)
        kernels.append(replace(summed, grid=(summed.grid[0], 1, batch)))
    return kernels


def fastest(
    kind: str, target: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int = 1, turning: float = 0.0
) -> tuple[Tile, int, float]:
    """The tile, the parts of the inner side, and the seconds that its arithmetic takes.

    Of a product those tiles are tried that have the widest loads that its sides allow; cuDNN fills channels up to what its
    kernels need. If no tile of a convolution fits the GPU, tiles of products replace them.

    At each step along the inner side an SM does the tile's multiplications and loads its edges from the L2 cache; the GPU is
    done when the SM with the most tiles is. A block of fewer than four warps uses as many quarters of its SM: each quarter has
    its own arithmetic and runs one warp at a time. Splitting costs another pass over the answers and a kernel; ``turning`` are
    the seconds that a convolution's kernel costs more whose answer has the channels last.
    """
    known, gpu = target.configurations, target.gpu
    tiles = known.tiles.get((kind, arithmetic)) or known.tiles["product", arithmetic]
    if kind == "product":
        widest = [max((size for size in tile.alignments if inner % size == 0 == columns % size), default=0) for tile in tiles]
        tiles = [tile for tile, alignment in zip(tiles, widest, strict=True) if alignment == max(widest)]
    # arrays of shape (tiles, splits)
    tile_rows, tile_columns, warps = np.array([(tile.rows, tile.columns, tile.threads / 32) for tile in tiles]).T[:, :, None]
    persistent, channels_last = np.array([(tile.persistent, tile.channels_last) for tile in tiles]).T[:, :, None]
    splits = np.where(persistent | (inner < _SPLITS * _LEAST_INNER), 1, _SPLITS)
    count = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns) * batch * splits
    multiplying = tile_rows * tile_columns / target.products_per_cycle(arithmetic)
    loading = (tile_rows + tile_columns) * WIDTHS[target.precision] / _L2_BYTES_PER_CYCLE
    rounds = np.maximum(np.ceil(count / gpu.sm_count), 4 / warps)
    seconds = rounds * np.ceil(inner / splits) * (multiplying + loading) / gpu.boost_clock
    again = 4.0 * batch * rows * columns * splits / gpu.memory_bandwidth + known.shortest_kernel
    more = np.where(channels_last, turning, 0.0) + np.where(splits > 1, again, 0.0)
    best = np.unravel_index(np.argmin(seconds + more), seconds.shape)
    return tiles[int(best[0])], int(splits[best]), float(seconds[best])


def tile_blocks(tile: Tile, rows: int, columns: int, most: int = 8) -> tuple[int, int]:
    """Blocks in x and y for all tiles of an answer.

    CUTLASS's lie in bundles of 8, 4 or 2 columns of tiles, up to ``most``, where there are at least 6, 3 or 2.
    """
    down, across = ceil_div(rows, tile.rows), ceil_div(columns, tile.columns)
    if "cutlass" not in tile.name:
        return across, down
    bundle = next((size for size, least in ((8, 6), (4, 3), (2, 2)) if across >= least and size <= most), 1)
    return down * bundle, ceil_div(across, bundle)
