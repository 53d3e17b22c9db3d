"""The networks that a campaign trains: the paper's fourteen CNNs (section IV-A).

They are torch modules, built for an image size, and answer logits, not softmax.

Initial weights are PyTorch's: for the time that a step takes they do not matter.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import nn

from epochcast.analyzer.backends.occupancy.networks import lenet5
from epochcast.analyzer.errors import InputError
from lab.campaign.networks.inception import inception_resnet_v2, inception_v3
from lab.campaign.networks.plain import cifar10_cnn, mnist_cnn, vgg
from lab.campaign.networks.residual import mobilenet_v2, resnet, resnet_small

NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    **{f"VGG{depth}": partial(vgg, depth) for depth in (19, 16, 13, 11)},
    "MobileNetV2": mobilenet_v2,
    "InceptionV3": inception_v3,
    "InceptionResNetV2": inception_resnet_v2,
    **{f"ResNet{depth}": partial(resnet, depth) for depth in (50, 34, 18)},
    "ResNetSmall": resnet_small,
    "LeNet5": lenet5,
    "CIFAR10_CNN": cifar10_cnn,
    "MNIST_CNN": mnist_cnn,
}
"""By the paper's names; each is called as ``network(image_size=…, classes=…)`` and takes (n, 3, image_size, image_size)."""


def build(name: str, image_size: int, classes: int = 10) -> nn.Module:
    """Build a network for square images of ``image_size`` pixels, 32 or more, and that many classes.

    Raises InputError for a name that is no key of ``NETWORKS``.
    """
    if name not in NETWORKS:
        raise InputError(f"unknown network {name!r}; known are {', '.join(NETWORKS)}")
    return NETWORKS[name](image_size=image_size, classes=classes)
