"""InceptionV3: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, without auxiliary head.

The widths that the article's Table 1 leaves open are those of its authors' code (tensorflow/models, `inception_v3.py`).
"""

from torch import nn

from .blocks import Branches, classifier, conv_norm
from .inception_stem import pooled, stem


def _five_by_five(inputs: int, pool: int) -> Branches:
    """Figure 5: the larger filters as two of 3 x 3; 224 + ``pool`` channels."""
    return Branches(
        conv_norm(inputs, 64),
        nn.Sequential(conv_norm(inputs, 48), conv_norm(48, 64, 5)),
        nn.Sequential(conv_norm(inputs, 64), conv_norm(64, 96, 3), conv_norm(96, 96, 3)),
        pooled(inputs, pool),
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
        pooled(768, 192),
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
        pooled(inputs, 192),
    )


def inception_v3(image_size: int, classes: int) -> nn.Module:
    """Build the network; images below 75 pixels are enlarged to 75 first (:mod:`.inception_stem`)."""
    return nn.Sequential(
        stem(image_size),
        *(_five_by_five(192, 32), _five_by_five(256, 64), _five_by_five(288, 64)),
        _halve_to_17(288),
        *(_seven_by_one(inner) for inner in (128, 160, 160, 192)),
        _halve_to_8(),
        *(_wide(1280), _wide(2048)),
        classifier(2048, classes),
    )
