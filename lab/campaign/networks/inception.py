"""Inception: InceptionV3 (Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016) without its
auxiliary head, and InceptionResNetV2 (Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections",
AAAI 2017).

Widths that the first article's Table 1 leaves open, and stem, widths and residual scales of the second network, are those of
their authors' code (tensorflow/models, `inception_v3.py` and `inception_resnet_v2.py`, which Keras follows): they differ a
little from the second article's Figure 15.
"""

from torch import nn

from lab.campaign.networks.blocks import Branches, Residual, classifier, conv_norm

_SMALLEST = 75
"""Pixels below which the layers without padding leave nothing: from 75 on the last map is 1 x 1 or more."""


def _stem(image_size: int) -> nn.Sequential:
    """The layers before the first branches: 3 channels to 192, an eighth of the size.

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


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    """Build the branch that takes a mean of 3 x 3 and then a 1 x 1 convolution."""
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv_norm(inputs, outputs))


def _five_by_five(inputs: int, pool: int) -> Branches:
    """Figure 5: the larger filters as two of 3 x 3; 224 + ``pool`` channels."""
    return Branches(
        conv_norm(inputs, 64),
        nn.Sequential(conv_norm(inputs, 48), conv_norm(48, 64, 5)),
        nn.Sequential(conv_norm(inputs, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3)),
        _pooled(inputs, pool),
    )


def _halve_to_17(inputs: int) -> Branches:
    """Figure 10: half the size, 480 more channels."""
    return Branches(
        conv_norm(inputs, 384, 3, stride=2, padding=0),
        nn.Sequential(conv_norm(inputs, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3, stride=2, padding=0)),
        nn.MaxPool2d(3, stride=2),
    )


def _seven_by_one(inner: int) -> Branches:
    """Figure 6: filters of 7 x 7 as 1 x 7 and 7 x 1; 768 channels in and out."""
    return Branches(
        conv_norm(768, 192),
        nn.Sequential(conv_norm(768, inner), conv_norm(inner, inner, (1, 7)), conv_norm(inner, 192, (7, 1))),
        nn.Sequential(
            conv_norm(768, inner),
            conv_norm(inner, inner, (7, 1)),
            conv_norm(inner, inner, (1, 7)),
            conv_norm(inner, inner, (7, 1)),
            conv_norm(inner, 192, (1, 7)),
        ),
        _pooled(768, 192),
    )


def _halve_to_8() -> Branches:
    """Half the size again, from 768 channels to 1280."""
    return Branches(
        nn.Sequential(conv_norm(768, 192), conv_norm(192, 320, 3, stride=2, padding=0)),
        nn.Sequential(
            conv_norm(768, 192),
            conv_norm(192, 192, (1, 7)),
            conv_norm(192, 192, (7, 1)),
            conv_norm(192, 192, 3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, stride=2),
    )


def _wide(inputs: int) -> Branches:
    """Figure 7: the filters side by side instead of one after the other; 2048 channels."""

    def both(channels: int) -> Branches:
        return Branches(conv_norm(channels, 384, (1, 3)), conv_norm(channels, 384, (3, 1)))

    return Branches(
        conv_norm(inputs, 320),
        nn.Sequential(conv_norm(inputs, 384), both(384)),
        nn.Sequential(conv_norm(inputs, 448), conv_norm(448, 384, 3), both(384)),
        _pooled(inputs, 192),
    )


def inception_v3(image_size: int, classes: int) -> nn.Module:
    """Build the network; images below 75 pixels are enlarged to 75 first (the stem says why)."""
    return nn.Sequential(
        _stem(image_size),
        *(_five_by_five(192, 32), _five_by_five(256, 64), _five_by_five(288, 64)),
        _halve_to_17(288),
        *(_seven_by_one(inner) for inner in (128, 160, 160, 192)),
        _halve_to_8(),
        *(_wide(1280), _wide(2048)),
        classifier(2048, classes),
    )


def _residual(branches: Branches, joined: int, channels: int, scale: float, activation: bool = True) -> Residual:
    """Section 3.3: a 1 x 1 convolution brings the branches back to the input's channels, ``scale`` keeps training stable."""
    body = nn.Sequential(branches, nn.Conv2d(joined, channels, 1))
    return Residual(body, activation=nn.ReLU(inplace=True) if activation else None, scale=scale)


def _mixed_5b() -> Branches:
    """From 192 channels to 320."""
    return Branches(
        conv_norm(192, 96),
        nn.Sequential(conv_norm(192, 48), conv_norm(48, 64, 5)),
        nn.Sequential(conv_norm(192, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3)),
        _pooled(192, 64),
    )


def _block_35() -> Residual:
    """Inception-ResNet-A, on 320 channels."""
    branches = Branches(
        conv_norm(320, 32),
        nn.Sequential(conv_norm(320, 32), conv_norm(32, 32, 3)),
        nn.Sequential(conv_norm(320, 32), conv_norm(32, 48, 3), conv_norm(48, 64, 3)),
    )
    return _residual(branches, 128, 320, 0.17)


def _reduction_a() -> Branches:
    """Half the size, from 320 channels to 1088."""
    return Branches(
        conv_norm(320, 384, 3, stride=2, padding=0),
        nn.Sequential(conv_norm(320, 256), conv_norm(256, 256, 3), conv_norm(256, 384, 3, stride=2, padding=0)),
        nn.MaxPool2d(3, stride=2),
    )


def _block_17() -> Residual:
    """Inception-ResNet-B, on 1088 channels."""
    branches = Branches(
        conv_norm(1088, 192),
        nn.Sequential(conv_norm(1088, 128), conv_norm(128, 160, (1, 7)), conv_norm(160, 192, (7, 1))),
    )
    return _residual(branches, 384, 1088, 0.1)


def _reduction_b() -> Branches:
    """Half the size, from 1088 channels to 2080."""
    return Branches(
        nn.Sequential(conv_norm(1088, 256), conv_norm(256, 384, 3, stride=2, padding=0)),
        nn.Sequential(conv_norm(1088, 256), conv_norm(256, 288, 3, stride=2, padding=0)),
        nn.Sequential(conv_norm(1088, 256), conv_norm(256, 288, 3), conv_norm(288, 320, 3, stride=2, padding=0)),
        nn.MaxPool2d(3, stride=2),
    )


def _block_8(scale: float = 0.2, activation: bool = True) -> Residual:
    """Inception-ResNet-C, on 2080 channels."""
    branches = Branches(
        conv_norm(2080, 192),
        nn.Sequential(conv_norm(2080, 192), conv_norm(192, 224, (1, 3)), conv_norm(224, 256, (3, 1))),
    )
    return _residual(branches, 448, 2080, scale, activation)


def inception_resnet_v2(image_size: int, classes: int) -> nn.Module:
    """Build the network; images below 75 pixels are enlarged to 75 first (the stem says why)."""
    return nn.Sequential(
        _stem(image_size),
        _mixed_5b(),
        *(_block_35() for _ in range(10)),
        _reduction_a(),
        *(_block_17() for _ in range(20)),
        _reduction_b(),
        *(_block_8() for _ in range(9)),
        _block_8(scale=1.0, activation=False),
        conv_norm(2080, 1536),
        classifier(1536, classes),
    )
