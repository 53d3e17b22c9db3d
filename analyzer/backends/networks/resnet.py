"""ResNet: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, Table 1; and a small one.

A stage's first convolution has the stride, as in the article. The paper's own ResNet18 to 50 (ddps-lab/profet, `model_info.py`)
normalise before each convolution instead of after it; the convolutions are the same.
"""

from collections.abc import Callable

from torch import nn

from .blocks import Residual, classifier, conv_norm

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


def _stem() -> nn.Sequential:
    return nn.Sequential(conv_norm(3, 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1))


def _resnet(block: Callable[[int, int, int], tuple[nn.Module, int]], repeats: tuple[int, ...], classes: int) -> nn.Sequential:
    blocks: list[nn.Module] = []
    inputs = 64
    for stage, channels in enumerate(_STAGE_CHANNELS):
        for repeat in range(repeats[stage]):
            built, inputs = block(inputs, channels, 2 if stage and not repeat else 1)
            blocks.append(built)
    return nn.Sequential(_stem(), *blocks, classifier(inputs, classes))


def resnet18(image_size: int, classes: int) -> nn.Module:
    """Build the 18-layer network; its layers fit any ``image_size``."""
    return _resnet(_basic, (2, 2, 2, 2), classes)


def resnet34(image_size: int, classes: int) -> nn.Module:
    """Build the 34-layer network; its layers fit any ``image_size``."""
    return _resnet(_basic, (3, 4, 6, 3), classes)


def resnet50(image_size: int, classes: int) -> nn.Module:
    """Build the 50-layer network; its layers fit any ``image_size``."""
    return _resnet(_bottleneck, (3, 4, 6, 3), classes)


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
