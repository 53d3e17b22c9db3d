"""InceptionResNetV2: Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections", AAAI 2017.

Stem, widths and residual scales as in its authors' code (tensorflow/models, `inception_resnet_v2.py`), which Keras follows:
they differ a little from the article's Figure 15.
"""

from torch import nn

from .blocks import Branches, Residual, classifier, conv_norm
from .inception_stem import pooled, stem


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
        pooled(192, 64),
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
    """Build the network; images below 75 pixels are enlarged to 75 first (:mod:`.inception_stem`)."""
    return nn.Sequential(
        stem(image_size),
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
