"""MobileNetV2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018, Table 2, width 1."""

from torch import nn

from .blocks import Residual, classifier, conv_norm

# Rows of the table: expansion, output channels, repeats, stride of the first.
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


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
    for expansion, outputs, repeats, first_stride in _STAGES:
        for repeat in range(repeats):
            layers.append(_inverted_residual(inputs, outputs, 1 if repeat else first_stride, expansion))
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(inputs, 1280, activation=nn.ReLU6), classifier(1280, classes))
