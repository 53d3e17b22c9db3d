"""The paper's fourteen CNNs (section IV-A) as torch modules, built for an image size; they answer logits, not softmax.

Initial weights are PyTorch's: for the time that a step takes they do not matter.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import nn

from epochcast.analyzer.backends.networks.inception import inception_resnet_v2, inception_v3
from epochcast.analyzer.backends.networks.plain import cifar10_cnn, lenet5, mnist_cnn, vgg
from epochcast.analyzer.backends.networks.residual import mobilenet_v2, resnet, resnet_small
from epochcast.analyzer.errors import InputError

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
    """Build a network of :data:`NETWORKS` for square images of ``image_size`` pixels and that many classes.

    Raises:
        InputError: the images are too small, or there is no class.
    """
    if classes < 1:
        raise InputError(f"the network {name!r} cannot have {classes} classes; give 1 or more")
    if image_size < SMALLEST_IMAGE:
        raise InputError(f"the network {name} cannot take images of {image_size} pixels; give {SMALLEST_IMAGE} or more")
    return NETWORKS[name](image_size=image_size, classes=classes)


__all__ = ["NETWORKS", "SMALLEST_IMAGE", "build"]
