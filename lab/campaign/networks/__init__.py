"""The network that a campaign trains: one of the paper's fourteen CNNs (section IV-A), or a user's own.

They are torch modules, built for an image size, and answer logits, not softmax.

Initial weights are PyTorch's: for the time that a step takes they do not matter.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import nn

from epochcast.analyzer.backends.network.factory import IMPORT_PATH, import_factory, module_and_inputs
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

SMALLEST_IMAGE = 32
"""Pixels: below, the five halvings of a VGG leave nothing; the paper's grid begins here as well."""


def build(name: str, image_size: int, classes: int = 10) -> nn.Module:
    """Build a network for square images of ``image_size`` pixels and that many classes.

    ``name`` is a key of ``NETWORKS``, or an import path ``package.module:factory`` that is called as
    ``factory(image_size=…, classes=…)``. It runs code of that module: take import paths from the user's own files alone.

    Raises:
        InputError: the name is unknown, the factory cannot be imported or gives no module, or a size is impossible.
    """
    if name not in NETWORKS:
        if not IMPORT_PATH.fullmatch(name):
            raise InputError(f"unknown network {name!r}; known are {', '.join(NETWORKS)}, or give package.module:factory")
        return module_and_inputs(name, import_factory(name)(image_size=image_size, classes=classes))[0]
    if classes < 1:
        raise InputError(f"the network {name!r} cannot have {classes} classes; give 1 or more")
    if image_size < SMALLEST_IMAGE:
        raise InputError(f"the network {name} cannot take images of {image_size} pixels; give {SMALLEST_IMAGE} or more")
    return NETWORKS[name](image_size=image_size, classes=classes)
