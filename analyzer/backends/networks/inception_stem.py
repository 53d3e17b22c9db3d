"""The first layers that both Inceptions have in common, and what they do with images that are too small for them."""

from torch import nn

from .blocks import conv_norm

_SMALLEST = 75
"""Pixels below which the layers without padding leave nothing: from 75 on the last map is 1 x 1 or more."""


def stem(image_size: int) -> nn.Sequential:
    """Build the layers before the first branches: 3 channels to 192, an eighth of the size.

    Szegedy et al. 2016 (CVPR), Table 1, as its authors' code has it. An image below 75 pixels is first enlarged to 75, so
    that the network stays the published one.
    """
    enlarge = [nn.Upsample(size=_SMALLEST, mode="bilinear")] if image_size < _SMALLEST else []
    return nn.Sequential(
        *enlarge,
        conv_norm(3, 32, 3, stride=2, padding=0),
        conv_norm(32, 32, 3, padding=0),
        conv_norm(32, 64, 3),
        nn.MaxPool2d(3, stride=2),
        conv_norm(64, 80),
        conv_norm(80, 192, 3, padding=0),
        nn.MaxPool2d(3, stride=2),
    )


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    """Build the branch that takes a mean of 3 x 3 and then a 1 x 1 convolution."""
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv_norm(inputs, outputs))
