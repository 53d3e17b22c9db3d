"""The paper's fourteen CNNs (section IV-A) as torch modules, built for an image size; they answer logits, not softmax.

Initial weights are PyTorch's: for the time that a step takes they do not matter.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial

from torch import nn

from epochcast.analyzer.backends.networks.inception import inception_resnet_v2, inception_v3
from epochcast.analyzer.backends.networks.plain import cifar10_cnn, lenet5, mnist_cnn, vgg
from epochcast.analyzer.backends.networks.residual import mobilenet_v2, resnet, resnet_small
from epochcast.analyzer.backends.user_factory import IMPORT_PATH, import_factory, module_and_inputs, type_and_text
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
    """Build a network for square images of ``image_size`` pixels and that many classes.

    ``name`` is a key of :data:`NETWORKS`, or an import path ``package.module:factory`` that is called as
    ``factory(image_size=…, classes=…)``. It runs code of that module: take import paths from the user's own files alone.

    Raises:
        InputError: the name is unknown, the factory cannot be imported, fails or gives no module, or a size is impossible.
    """
    if classes < 1:
        raise InputError(f"the network {name!r} cannot have {classes} classes; give 1 or more")
    if name in NETWORKS:
        if image_size < SMALLEST_IMAGE:
            raise InputError(f"the network {name} cannot take images of {image_size} pixels; give {SMALLEST_IMAGE} or more")
        return NETWORKS[name](image_size=image_size, classes=classes)
    factory = _factory(name)
    try:
        made = factory(image_size=image_size, classes=classes)
    except InputError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(
            f"the network {name!r} cannot be built for images of {image_size} pixels and {classes} classes: "
            f"{type_and_text(error)}; fix the factory"
        ) from error
    return module_and_inputs(name, made)[0]


def _factory(name: str) -> Callable[..., object]:
    if IMPORT_PATH.fullmatch(name):
        return import_factory(name)
    close = get_close_matches(name, NETWORKS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(NETWORKS)}"
    raise InputError(f"unknown network {name!r}; {hint} (for your own, give an import path, package.module:factory)")


__all__ = ["NETWORKS", "SMALLEST_IMAGE", "build"]
