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

from .elementwise import strided
from .gemm import bundled, fastest, has_channels_last, product
from .operator import Kernel, Operator, Target, ceil_div, per_block

_BUNDLE = 4
"""Columns of tiles in a bundle of a convolution's blocks, as the traces show them."""

_PIXELS_TURNED = 32
_CHANNELS_TURNED = 32
_WINOGRAD_OUTPUT = 4
_WINOGRAD_POINTS = 36
_WINOGRAD_TILES = 256
_WINOGRAD_FILTERS = (32, 8)
_OFFSETS = 256
_TF32_CHANNELS = 4


def convolution(operator: Operator, target: Target) -> list[Kernel]:
    """All kernels of one convolution."""
    groups, channels = operator.side("groups"), operator.side("input_features")
    if groups > 1 and groups == channels:
        return _depthwise(operator, target)
    window = operator.side("kernel_height") * operator.side("kernel_width")
    plain = operator.side("stride") == 1 and operator.side("dilation") == 1 and groups == 1
    arithmetic = _arithmetic(operator, target)
    if window == 1 and plain:
        kernels = _of_one_pixel(operator, target, arithmetic)
    elif (
        operator.side("kernel_height") == operator.side("kernel_width") == 3
        and plain
        and target.convolution_arithmetic == "fp32"
    ):
        kernels = _winograd(operator, target)
    else:
        kernels = _implicit(operator, target, arithmetic)
    if operator.weights > operator.side("output_features") * operator.side("reduced"):
        moved = 2.0 * operator.width * operator.written
        kernels.append(strided(operator.written, operator.width, target, moved))
    return kernels


def _arithmetic(operator: Operator, target: Target) -> str:
    """cuDNN's TensorFloat-32 kernels load four channels at a time."""
    wanted = target.convolution_arithmetic
    per_group = operator.side("input_features") / operator.side("groups")
    return "fp32" if wanted == "tf32" and per_group % _TF32_CHANNELS else wanted


def _depthwise(operator: Operator, target: Target) -> list[Kernel]:
    configuration = target.configurations.kernels["depthwise_convolution"]
    return [Kernel(configuration, per_block(operator.written, configuration.threads), operator.moved)]


def _of_one_pixel(operator: Operator, target: Target, arithmetic: str) -> list[Kernel]:
    features = operator.side("output_features")
    pixels = ceil_div(operator.written, features * operator.samples)
    return product(target, arithmetic, features, pixels, operator.side("reduced"), operator.samples)


def _winograd(operator: Operator, target: Target) -> list[Kernel]:
    inputs, outputs = operator.side("input_features"), operator.side("output_features")
    side = math.sqrt(operator.written / (outputs * operator.samples))
    per_image = ceil_div(side, _WINOGRAD_OUTPUT) ** 2
    tiles = per_image * operator.samples
    grown = _WINOGRAD_POINTS / _WINOGRAD_OUTPUT**2
    kernels, width = target.configurations.kernels, operator.width
    blocks = ceil_div(tiles, _WINOGRAD_TILES)
    filters = (ceil_div(outputs, _WINOGRAD_FILTERS[0]), ceil_div(inputs, _WINOGRAD_FILTERS[1]), 1)
    return [
        Kernel(kernels["winograd_input"], (blocks, inputs, 1), width * operator.read * (1 + grown)),
        Kernel(kernels["winograd_filter"], filters, width * operator.weights * (1 + _WINOGRAD_POINTS / 9)),
        *product(target, "fp32", outputs, tiles, inputs, _WINOGRAD_POINTS),
        Kernel(kernels["winograd_output"], (blocks, outputs, 1), width * operator.written * (1 + grown)),
    ]


def _implicit(operator: Operator, target: Target, arithmetic: str) -> list[Kernel]:
    outputs, groups, inner = operator.side("output_features"), operator.side("groups"), operator.side("reduced")
    pixels, columns = ceil_div(operator.written, outputs), ceil_div(outputs, groups)
    back = _turned("channels_first", operator.written, outputs, operator.samples, operator.width, target)
    turning = 0.0 if arithmetic == "fp32" else back.moved / target.gpu.memory_bandwidth
    tile, _, seconds = fastest("convolution", target, arithmetic, pixels, columns, inner, groups, turning)
    down, across = ceil_div(pixels, tile.rows), ceil_div(columns, tile.columns)
    main = Kernel(tile.configuration, (*bundled(tile, down, across, _BUNDLE), groups), operator.moved, seconds)
    if arithmetic == "fp32":
        image = ceil_div(operator.written, outputs * operator.samples)
        return [Kernel(target.configurations.kernels["convolution_offsets"], per_block(image, _OFFSETS), 0.0), main]
    kernels = [
        _turned("channels_last", operator.read, operator.side("input_features"), operator.samples, operator.width, target),
        _turned("channels_last", outputs * inner, max(1, inner // _window(operator)), outputs, operator.width, target),
        main,
    ]
    return [*kernels, back] if has_channels_last(tile) else kernels


def _window(operator: Operator) -> int:
    return operator.side("kernel_height") * operator.side("kernel_width")


def _turned(name: str, elements: float, channels: int, images: int, width: int, target: Target) -> Kernel:
    """Another order of the elements; a block turns 32 pixels x 32 channels of an image."""
    pixels = ceil_div(elements, channels * images)
    grid = (ceil_div(pixels, _PIXELS_TURNED), ceil_div(channels, _CHANNELS_TURNED), images)
    return Kernel(target.configurations.kernels[name], grid, 2.0 * width * elements)
