"""Convolutions, as PyTorch and cuDNN run those of images that lie channel by channel (NCHW).

- depthwise: PyTorch's own kernel, a thread per answer
- 1 x 1 without stride: a batch of products, one per image
- 3 x 3 without stride on GPUs without TensorFloat-32, in fp32: Winograd's transformation, 36 products, and back
- else an implicit product: pixels x channels of the answer. Tensor-core kernels want the channels last: the image and the
  weights are turned round before, and the answer back unless the kernel does so itself; where the channels are no multiple of
  four, fp32 falls back to a kernel without tensor cores
- a bias is another kernel, except of the depthwise
"""

from __future__ import annotations

import math

from epochcast.analyzer.backends.occupancy.modelled_kernels.memory_bound import strided
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, ModelledOperator, Target, ceil_div
from epochcast.analyzer.backends.occupancy.modelled_kernels.products import fastest, product, tile_blocks

_WINOGRAD_OUTPUT = 4
_WINOGRAD_POINTS = 36


def convolution(operator: ModelledOperator, target: Target) -> list[Kernel]:
    """All kernels of one convolution."""
    groups, inputs, outputs, inner = map(operator.side, ("groups", "input_features", "output_features", "reduced"))
    if 1 < groups == inputs:
        return [target.flat("depthwise_convolution", operator.written, 1, operator.moved)]
    arithmetic, pixels = target.convolution_arithmetic, ceil_div(operator.written, outputs * operator.samples)
    window = (operator.side("kernel_height"), operator.side("kernel_width"))
    plain = operator.side("stride") == operator.side("dilation") == groups == 1
    if plain and window == (3, 3) and arithmetic == "fp32":
        kernels = _winograd(operator, target)
    else:
        if arithmetic == "tf32" and inputs / groups % 4:
            arithmetic = "fp32"
        if plain and window == (1, 1):
            kernels = product(target, arithmetic, outputs, pixels, inner, operator.samples)
        else:
            kernels = _implicit(operator, target, arithmetic)
    if operator.weights > outputs * inner:
        kernels.append(strided(operator, target, operator.written))
    return kernels


def _winograd(operator: ModelledOperator, target: Target) -> list[Kernel]:
    inputs, outputs = operator.side("input_features"), operator.side("output_features")
    side = math.sqrt(operator.written / (outputs * operator.samples))
    tiles = ceil_div(side, _WINOGRAD_OUTPUT) ** 2 * operator.samples
    grown, blocks = _WINOGRAD_POINTS / _WINOGRAD_OUTPUT**2, ceil_div(tiles, 256)
    filters = (ceil_div(outputs, 32), ceil_div(inputs, 8), 1)
    return [
        target.kernel("winograd_input", (blocks, inputs, 1), operator.width * operator.read * (1 + grown)),
        target.kernel("winograd_filter", filters, operator.width * operator.weights * (1 + _WINOGRAD_POINTS / 9)),
        *product(target, "fp32", outputs, tiles, inputs, _WINOGRAD_POINTS),
        target.kernel("winograd_output", (blocks, outputs, 1), operator.width * operator.written * (1 + grown)),
    ]


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
