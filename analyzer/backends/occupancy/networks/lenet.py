"""LeNet-5 for coloured images of any size: two convolutions and three dense layers."""

from __future__ import annotations

from torch import nn

from ....errors import InputError

_SMALLEST = 16


def lenet(image_size: int) -> nn.Module:
    """As LeCun et al. draw it, with ReLU and max-pooling, for square images of 3 channels.

    Raises:
        InputError: the image is too small for two convolutions and two poolings.
    """
    if image_size < _SMALLEST:
        raise InputError(f"lenet cannot have image size {image_size}; give {_SMALLEST} or more")
    side = ((image_size - 4) // 2 - 4) // 2
    features = (nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    dense = (nn.Linear(16 * side * side, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(*features, *dense)
