"""Networks of residual blocks: ResNet, a small one, and MobileNetV2.

ResNet: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, Table 1. A stage's first convolution
has the stride, as in the article. The paper's own ResNet18 to 50 (ddps-lab/profet, `model_info.py`) normalise before each
convolution instead of after it; the convolutions are the same.

MobileNetV2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, Table 2, width 1.
"""

from collections.abc import Callable

from torch import nn

from lab.campaign.networks.blocks import Residual, classifier, conv_norm

_STAGE_CHANNELS = (64, 128, 256, 512)
_EXPANSION = 4


def _basic(inputs: int, channels: int, stride: int) -> tuple[nn.Module, int]:
    """Figure 5 left: two convolutions of 3 x 3; the block and its output channels."""
    body = nn.Sequential(
        conv_norm(inputs, channels, 3, stride=stride),
        conv_norm(channels, channels, 3, activation=None),
    )
    return _residual(body, inputs, channels, stride), channels


def _bottleneck(inputs: int, channels: int, stride: int) -> tuple[nn.Module, int]:
    """Figure 5 right: 1 x 1, 3 x 3 and 1 x 1 convolutions, the last four times as wide; the block and its output channels."""
    outputs = _EXPANSION * channels
    body = nn.Sequential(
        conv_norm(inputs, channels, stride=stride),
        conv_norm(channels, channels, 3),
        conv_norm(channels, outputs, activation=None),
    )
    return _residual(body, inputs, outputs, stride), outputs


def _residual(body: nn.Module, inputs: int, outputs: int, stride: int) -> Residual:
    """Option B of section 3.3: the shortcut is projected where the shape changes, and plain elsewhere."""
    changes = stride != 1 or inputs != outputs
    shortcut = conv_norm(inputs, outputs, stride=stride, activation=None) if changes else None
    return Residual(body, shortcut, activation=nn.ReLU(inplace=True))


# By depth: the block, and how many of them each stage has.
_BLOCKS: dict[int, tuple[Callable[[int, int, int], tuple[nn.Module, int]], tuple[int, ...]]] = {
    18: (_basic, (2, 2, 2, 2)),
    34: (_basic, (3, 4, 6, 3)),
    50: (_bottleneck, (3, 4, 6, 3)),
}


def _stem() -> nn.Sequential:
    return nn.Sequential(conv_norm(3, 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1))


def resnet(depth: int, image_size: int, classes: int) -> nn.Module:
    """Build the network of 18, 34 or 50 layers; they fit any ``image_size``."""
    block, all_repeats = _BLOCKS[depth]
    blocks: list[nn.Module] = []
    inputs = 64
    for stage, (channels, repeats) in enumerate(zip(_STAGE_CHANNELS, all_repeats, strict=True)):
        for repeat in range(repeats):
            built, inputs = block(inputs, channels, 2 if stage and not repeat else 1)
            blocks.append(built)
    return nn.Sequential(_stem(), *blocks, classifier(inputs, classes))


def resnet_small(image_size: int, classes: int) -> nn.Module:
    """Build PROFET's ResNetSmall: ResNet's stem and four residual blocks whose convolutions are all 1 x 1.

    Layers and widths as in `data_generation/workload/model_info.py` of ddps-lab/profet; they fit any ``image_size``. Its
    convolutions have biases, which the normalisation after them undoes: left out here.
    """

    def block(inputs: int, channels: int, stride: int) -> Residual:
        body = nn.Sequential(conv_norm(inputs, channels, stride=stride), conv_norm(channels, channels, activation=None))
        return _residual(body, inputs, channels, stride)

    return nn.Sequential(
        _stem(), block(64, 64, 2), block(64, 64, 1), block(64, 128, 2), block(128, 128, 1), classifier(128, classes)
    )


# Rows of MobileNetV2's table: expansion, output channels, repeats, stride of the first.
_MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _inverted_residual(inputs: int, outputs: int, stride: int, expansion: int) -> nn.Module:
    """Table 1: widen by 1 x 1, filter each channel by 3 x 3, narrow by 1 x 1 without activation."""
    wide = expansion * inputs
    widen = [conv_norm(inputs, wide, activation=nn.ReLU6)] if expansion > 1 else []
    body = nn.Sequential(
        *widen,
        conv_norm(wide, wide, 3, stride=stride, groups=wide, activation=nn.ReLU6),
        conv_norm(wide, outputs, activation=None),
    )
    return Residual(body) if stride == 1 and inputs == outputs else body


def mobilenet_v2(image_size: int, classes: int) -> nn.Module:
    """Build the network; its layers fit any ``image_size``."""
    layers: list[nn.Module] = [conv_norm(3, 32, 3, stride=2, activation=nn.ReLU6)]
    inputs = 32
    for expansion, outputs, repeats, first_stride in _MOBILENET_STAGES:
        for repeat in range(repeats):
            layers.append(_inverted_residual(inputs, outputs, 1 if repeat else first_stride, expansion))
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(inputs, 1280, activation=nn.ReLU6), classifier(1280, classes))
